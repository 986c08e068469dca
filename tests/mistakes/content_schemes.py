"""Mistakes in schemes whose scores depend on content."""

from __future__ import annotations

from tests.mistakes._mistake import read

MISTAKES = read("""
the forget gate of the key counts
  sums_between  position/test_forget.py::test_gates_of_one_half_by_hand
  - until[:, :, None, :]
  + (until - log_gates.transpose(1, 2))[:, :, None, :]
gates that start as linear layers usually do
  Gates.__init__  position/test_forget.py::test_weights_start_as_in_the_release
  - nn.init.normal_(self.project.weight, std=_START)
far keys favoured instead of forgotten
  Forget.logits  position/test_forget.py::test_weights_of_another_implementation
  - q * q.shape[-1] ** -0.5 @ k.mT + path
  + q * q.shape[-1] ** -0.5 @ k.mT - path
log-gates added up in bfloat16
  Forget.logits  position/test_forget.py::test_a_long_sum_keeps_its_digits_in_bfloat16
  - sums_between(self.required(content), q.shape[2])
  + sums_between(self.required(content).to(q.dtype), q.shape[2])
queries taken for the first keys instead of the last (forget)
  sums_between  models/test_decoder.py::test_the_model_is_the_plain_one
  - until[:, :, until.shape[2] - count :, None]
  + until[:, :, :count, None]
all heads forget alike
  sums_between  models/test_decoder.py::test_the_model_is_the_plain_one
  - log_gates.cumsum(dim=1)
  + log_gates[..., :1].expand_as(log_gates).cumsum(dim=1)
gates added up instead of their logarithms
  Gates.forward  models/test_decoder.py::test_the_model_is_the_plain_one
  - functional.logsigmoid(wide(self.project(x.to(self.project.weight.dtype))))
  + wide(self.project(x)).sigmoid()
the logarithm of a gate that was rounded to 0
  Gates.forward  position/test_forget.py::test_extreme_gates_stay_finite
  - functional.logsigmoid(wide(self.project(x.to(self.project.weight.dtype))))
  + wide(self.project(x)).sigmoid().log()
gates of keys ahead counted
  _AddInterpolated.forward  models/test_decoder.py::test_the_model_is_the_plain_one
  - scores.sigmoid().tril_(behind)
  + scores.sigmoid()
gates added up from the first key instead of from the query
  _AddInterpolated.forward  position/test_contextual.py::test_positions_by_hand
  - gates.flip(-1).cumsum(-1).flip(-1)
  + gates.cumsum(-1)
the gate of the key itself does not count
  _AddInterpolated.forward  position/test_contextual.py::test_positions_by_hand
  - gates.flip(-1).cumsum(-1).flip(-1)
  + (gates.flip(-1).cumsum(-1).flip(-1) - gates)
the vector below and the one above swapped
  _AddInterpolated.forward  position/test_contextual.py::test_positions_by_hand
  - share = position.sub_(floor)
  + share = 1 - position.sub_(floor)
the term of CoPE without 1/sqrt(K)
  Contextual._of_rows  models/test_decoder.py::test_the_model_is_the_plain_one
  - scaled @ self.vectors.to(q.dtype).T
  + q @ self.vectors.to(q.dtype).T
queries taken for the first keys instead of the last (contextual)
  _AddInterpolated.forward  models/test_decoder.py::test_the_model_is_the_plain_one
  - behind = scores.shape[-1] - scores.shape[-2]
  + behind = 0
no gradient through the gates
  _AddInterpolated.backward  position/test_causal.py::test_it_behaves_in_causal_attention
  - torch.addcmul(grad, of_gates, gates * (1 - gates))
  + grad
a gate that only moves its own key
  _AddInterpolated.backward  position/test_causal.py::test_it_behaves_in_causal_attention
  - (grad * step).cumsum(-1)
  + (grad * step)
no gradient for the vector above
  _AddInterpolated.backward  position/test_causal.py::test_it_behaves_in_causal_attention
  - of_floor[..., 1:] += of_step[..., :-1]
the matrix of the key counts
  through_path  position/test_path.py::test_products_derived_again
  - (vectors @ keys.mT).tril(-1)
  + (vectors @ keys.mT).tril()
the matrix of the query does not count
  through_path  position/test_path.py::test_two_reflections_by_hand
  - (queries @ vectors[:, :, last].mT).tril(size - rows)
  + (queries @ vectors[:, :, last].mT).tril(size - rows - 1)
the matrices of a block in the opposite order
  through_path  position/test_path.py::test_products_derived_again
  - carried @ operators[at]
  + carried @ operators[at].mT
the operator of the key's own block applied twice
  through_path  position/test_path.py::test_products_derived_again
  - scores, index = carried @ to_end[at].mT, at - (count - asking)
  + scores, index = carried @ operators[at] @ to_end[at].mT, at - (count - asking)
the first block padded at its end
  _blocks  position/test_path.py::test_products_derived_again
  - (0, 0, count * size - x.shape[2], 0)
  + (0, 0, 0, count * size - x.shape[2])
beta where its root belongs
  Householder.forward  position/test_path.py::test_vectors_of_a_layer
  - ((math.log(2) + functional.logsigmoid(wide(self.beta(x)))) / 2).exp()
  + (math.log(2) + functional.logsigmoid(wide(self.beta(x)))).exp()
beta between 0 and 1, so that no matrix reflects
  Householder.forward  position/test_path.py::test_vectors_of_a_layer
  - math.log(2) + functional.logsigmoid(wide(self.beta(x)))
  + functional.logsigmoid(wide(self.beta(x)))
vectors of any length
  Householder.forward  position/test_path.py::test_vectors_of_a_layer
  - functional.normalize(w.unflatten(-1, (self.heads, -1)), dim=-1)
  + w.unflatten(-1, (self.heads, -1))
vectors normalised over all heads together
  Householder.forward  position/test_path.py::test_vectors_of_a_layer
  - functional.normalize(w.unflatten(-1, (self.heads, -1)), dim=-1)
  + functional.normalize(w, dim=-1).unflatten(-1, (self.heads, -1))
the root of a beta that was rounded to 0
  Householder.forward  position/test_path.py::test_extreme_betas_stay_finite
  - ((math.log(2) + functional.logsigmoid(wide(self.beta(x)))) / 2).exp()
  + (2 * wide(self.beta(x)).sigmoid()).sqrt()
the scores of PaTH without 1/sqrt(K)
  Path.logits  position/test_path.py::test_weights_of_another_implementation
  - wide(q) * q.shape[-1] ** -0.5
  + wide(q)
PoPE with K/2 frequencies
  Pope._angles  position/test_pope.py::test_scores_by_hand
  - frequencies(2 * self.shape.head_dim, self.base, positions.device)
  + frequencies(self.shape.head_dim, self.base, positions.device).repeat_interleave(2)
PoPE with a softplus after the rotation
  polar  position/test_pope.py::test_scores_by_hand
  - functional.softplus(wide(x))[..., None, :] * turns
  + functional.softplus(wide(x)[..., None, :] * turns)
PoPE with the phase on both sides, where it cancels
  Pope.of_queries  models/test_decoder.py::test_the_model_is_the_plain_one
  - self._turns(self._angles(context))
  + self.of_keys(context, context)
PoPE with the phase subtracted
  Pope.of_keys  position/test_pope.py::test_the_best_offset_of_a_channel_does_not_depend_on_content
  - self._angles(context) + delta[:, None]
  + self._angles(context) - delta[:, None]
PoPE with a phase beyond its bounds
  Pope.of_keys  position/test_pope.py::test_scores_of_another_implementation
  - self.free.double().clamp(-2 * math.pi, 0.0)
  + self.free.double()
PoPE divided by the root of all 2 K channels
  Pope.logits  position/test_pope.py::test_scores_of_another_implementation
  - q.shape[-1] ** -0.5
  + polar_q.shape[-1] ** -0.5
PoPE with angles in float32, wrong at far positions
  Pope._angles  position/test_pope.py::test_a_shift_of_all_positions_changes_nothing
  - positions[:, None, :, None] * step
  + positions[:, None, :, None] * step.float()
a convolution that looks ahead
  ShortConvolution.forward  models/test_decoder.py::test_the_model_is_the_plain_one
  - x[:, at : at + count]
  + x[:, size - 1 - at : size - 1 - at + count]
no SiLU after the convolution
  Householder.forward  position/test_path.py::test_weights_of_another_implementation_with_convolution_and_gates
  - functional.silu(self.convolution(w))
  + self.convolution(w)
a SiLU before the convolution
  Householder.forward  position/test_path.py::test_weights_of_another_implementation_with_convolution_and_gates
  - functional.silu(self.convolution(w))
  + self.convolution(functional.silu(w))
the betas and gates of earlier tokens
  Householder.forward  models/test_decoder.py::test_the_model_is_the_plain_one
  - x[:, self.reach :]
  + x[:, : x.shape[1] - self.reach]
the gates of PaTH-FoX left out
  Path.logits  models/test_decoder.py::test_the_model_is_the_plain_one
  - scores + sums_between(content[..., -1], q.shape[2])
  + scores
the angle of the key counts, and not that of the query
  SelectiveRope.logits  position/test_selective_rope.py::test_quarter_turns_by_hand
  - self.required(content).double().cumsum(dim=1)
  + (self.required(content).double().cumsum(dim=1) - content.double())
angles not added up
  SelectiveRope.logits  position/test_selective_rope.py::test_scores_of_another_implementation
  - self.required(content).double().cumsum(dim=1)
  + self.required(content).double()
keys turned the other way
  SelectiveRope.logits  position/test_selective_rope.py::test_quarter_turns_by_hand
  - rotate_halves(k, Rotations(angle, turns))
  + rotate_halves(k, Rotations(-angle))
angles added up in float32
  SelectiveRope.logits  position/test_selective_rope.py::test_a_long_row_keeps_its_digits
  - self.required(content).double()
  + self.required(content)
queries taken for the first keys instead of the last (selective-rope)
  SelectiveRope.logits  models/test_decoder.py::test_the_model_is_the_plain_one
  - k.shape[2] - q.shape[2]
  + 0
the layer's input not divided by its length
  Angles.forward  position/test_selective_rope.py::test_scores_of_another_implementation
  - (x * (x.square().sum(-1, keepdim=True) + _EPSILON).rsqrt()).flatten(-2)
  + x.flatten(-2)
the phase gate before the bias
  Angles.forward  position/test_selective_rope.py::test_scores_of_another_implementation
  - phi * wide(self._linear(self.gate, x)).sigmoid()[..., None]
  + (phi - wide(self.bias).exp()) * wide(self._linear(self.gate, x)).sigmoid()[..., None] + wide(self.bias).exp()
the bias of the angles without its exponential
  Angles.forward  models/test_decoder.py::test_the_model_is_the_plain_one
  - phi + wide(self.bias).exp()
  + phi + wide(self.bias)
angles of all pairs alike
  Angles.forward  position/test_selective_rope.py::test_scores_of_another_implementation
  - phi * frequencies(2 * phi.shape[-1], self.base, phi.device).to(phi.dtype)
  + phi
""")
