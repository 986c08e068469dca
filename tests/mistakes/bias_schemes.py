"""Mistakes in schemes that add a term to the logits."""

from __future__ import annotations

from tests.mistakes._mistake import read

MISTAKES = read("""
FIRE without its logarithm
  Fire.ratio  position/test_fire.py::test_a_ratio_by_hand
  - return (c * distance).log1p() / ((c * torch.maximum(farthest, threshold)).log1p() + _EPSILON)
  + return (c * distance) / ((c * torch.maximum(farthest, threshold)) + _EPSILON)
FIRE divided by the threshold alone, so that nothing is interpolated
  Fire.ratio  position/test_fire.py::test_the_farthest_key_is_the_same_at_every_length
  - torch.maximum(farthest, threshold)
  + threshold
FIRE without its threshold
  Fire.ratio  position/test_fire.py::test_only_below_the_threshold_does_the_distance_decide
  - torch.maximum(farthest, threshold)
  + farthest
FIRE divided by the position of the key
  Fire.ratio  position/test_fire.py::test_terms_of_another_implementation
  - torch.maximum(i, j)
  + j
FIRE with a divisor that keys ahead exceed
  Fire.ratio  position/test_fire.py::test_the_formula_in_every_part
  - torch.maximum(i, j)
  + i
FIRE with a signed distance
  Fire.ratio  position/test_fire.py::test_the_formula_in_every_part
  - (i - j).abs()
  + (i - j).clamp(min=0)
FIRE with a threshold that is not learned
  Fire.ratio  position/test_fire.py::test_gradients_of_c_and_of_the_threshold
  - (wide(self.multiplier) * self.initial).abs()
  + (wide(self.multiplier) * self.initial).abs().detach()
FIRE without its second layer's constant
  Fire.terms  position/test_fire.py::test_terms_of_another_implementation
  - torch.addmm(out_b[:, None], out_w, hidden)
  + out_w @ hidden
FIRE with one function for all heads
  Fire.terms  position/test_fire.py::test_terms_of_another_implementation
  - torch.addmm(out_b[:, None], out_w, hidden)
  + torch.addmm(out_b[:, None], out_w[:1].expand_as(out_w), hidden)
FIRE with positions rounded to the dtype of its weights
  Fire.ratio  position/test_fire.py::test_positions_keep_their_digits_in_bfloat16
  - wide(self.c).abs()
  + self.c.abs()
FIRE whose output starts with the weights of a single input
  Fire.__init__  position/test_fire.py::test_weights_start_as_those_of_linear_layers
  - uniform(shape.heads, width, inputs=width), uniform(shape.heads, inputs=width)
  + uniform(shape.heads, width, inputs=1), uniform(shape.heads, inputs=1)
KERPLE's r1 and r2 exchanged
  Kerple.coefficients  position/test_kerple.py::test_terms_of_another_implementation
  - first, second = wide(self.free)
  + second, first = wide(self.free)
KERPLE in 16 bits, which cannot hold far distances
  Kerple.coefficients  position/test_half.py::test_hooks_at_far_positions
  - first, second = wide(self.free)
  + first, second = self.free
KERPLE as a bonus
  Kerple.terms.term  position/test_kerple.py::test_terms_of_another_implementation
  - -r1
  + r1
KERPLE's r2 outside of the logarithm
  Kerple.terms.term  position/test_kerple.py::test_terms_by_hand
  - (r2 * distance).log1p()
  + r2 * distance.log1p()
KERPLE's logarithm without 1, which is infinite at distance 0
  Kerple.terms.term  position/test_kerple.py::test_terms_by_hand
  - (r2 * distance).log1p()
  + (r2 * distance).log()
KERPLE's power without its upper bound of 2
  Kerple.coefficients  position/test_kerple.py::test_coefficients_stay_in_their_bounds_and_keep_a_gradient
  - 2 * second.sigmoid()
  + second.exp()
KERPLE's coefficients cut off, so that they lose their gradient
  Kerple.coefficients  position/test_kerple.py::test_coefficients_stay_in_their_bounds_and_keep_a_gradient
  - first.exp()
  + first.exp().clamp(min=0.01)
KERPLE with the same coefficients in all heads
  Kerple.__init__  position/test_kerple.py::test_coefficients_start_as_in_the_release
  - torch.rand(2, shape.heads, generator=shape.generator)
  + torch.rand(2, 1, generator=shape.generator).expand(2, shape.heads)
ALiBi's slopes counted from zero
  slopes  position/test_alibi.py::test_slopes_of_another_implementation
  - torch.arange(1, heads + 1, dtype=torch.float64, device=device)
  + torch.arange(heads, dtype=torch.float64, device=device)
ALiBi's release with the second half of the slopes for twice the heads
  slopes  position/test_alibi.py::test_slopes_of_the_release
  - slopes(2 * power, device)[::2]
  + slopes(2 * power, device)[1::2]
additive GRAPE whose slopes cannot be chosen
  Shear.terms.term  position/test_alibi.py::test_slopes_of_the_release
  - slopes(self.shape.heads, offset.device, self.slopes)
  + slopes(self.shape.heads, offset.device)
causal ALiBi that still acts between decoder and encoder
  Alibi.penalty  position/test_alibi.py::test_causal_penalises_only_keys_behind_in_the_decoder
  - if q_context.causal and not (k_context.causal or self.acts_between):
  -     return None
causal ALiBi with an encoder that is blind to order
  Alibi.penalty  position/test_alibi.py::test_causal_penalises_only_keys_behind_in_the_decoder
  - if q_context.causal and not (k_context.causal or self.acts_between):
  -     return None
  + if self.causal and not k_context.causal:
  +     return None
causal ALiBi on keys ahead
  Alibi.penalty.term  position/test_alibi.py::test_causal_penalises_only_keys_behind_in_the_decoder
  - (-offset).clamp(min=0)
  + offset.clamp(min=0)
additive GRAPE with the sign of the distance behind the query
  Shear.terms.term  evaluation/test_relations.py::test_each_relation_holds
  - m * offset
  + m * -offset
additive GRAPE whose term is not that of its operators
  Shear.terms.term  evaluation/test_algebra.py::test_the_map_of_all_schemes
  - m * offset
  + m * offset * self.shape.head_dim**-0.5
additive GRAPE with the same operators on both sides
  Shear.representation  position/test_shear.py::test_it_is_a_unipotent_representation_of_the_integers
  - side == "query"
  + True
additive GRAPE with operators that are not inverted on the side of the key
  Shear.representation  position/test_shear.py::test_it_is_a_unipotent_representation_of_the_integers
  - shears[..., 0, 1] = step
  + shears[..., 0, 1] = -step
""")
