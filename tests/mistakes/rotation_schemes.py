"""Mistakes in the schemes that rotate: orthogonal (`init=rope`), xPos, LieRE, and RoPE and its variants."""

from __future__ import annotations

from tests.mistakes._mistake import read

MISTAKES = read("""
a start as RoPE with each frequency twice, and half of them left out
  Powers.start_as_rope  position/test_orthogonal.py::test_a_start_as_rope_has_the_scores_of_rope
  - frequencies(2 * self.angles.shape[-1], ROPE_BASE)
  + frequencies(self.angles.shape[-1], ROPE_BASE).repeat_interleave(2)
a start as RoPE in a random basis
  Powers.start_as_rope  position/test_orthogonal.py::test_a_start_as_rope_has_the_scores_of_rope
  - self.basis.zero_()
  + pass
a tree whose generators start at twice RoPE's angles, because A - A' counts A twice
  Branches.start_as_rope  position/test_orthogonal.py::test_the_start_as_rope_worked_out_for_four_channels
  - s / 2
  + s
xPos with the same factors on both sides
  Xpos.factors  evaluation/test_laws.py::test_every_law_that_is_claimed_holds
  - (-growth).exp()
  + growth.exp()
xPos with the sides swapped: scores grow with the distance
  Xpos.rotate  position/test_xpos.py::test_scores_fall_with_the_distance_and_are_those_of_rope_at_no_distance
  - context.cached(context, self.factors)[side]
  + context.cached(context, self.factors)["key" if side == "query" else "query"]
xPos without gamma in the denominator
  Xpos.rates  position/test_xpos.py::test_scores_of_other_implementations
  - (two_i / self.shape.head_dim + self.gamma) / (1.0 + self.gamma)
  + two_i / self.shape.head_dim + self.gamma
xPos with rates of channels instead of pairs
  Xpos.rates  position/test_xpos.py::test_worked_example
  - two_i / self.shape.head_dim
  + two_i / 2 / self.shape.head_dim
xPos that counts from the first position of a context: a decoder that adds tokens one by one has other scores
  Xpos.factors  models/test_decoder.py::test_the_model_is_the_plain_one
  - context.positions[:, None, :, None].double()
  + (context.positions - context.positions.amin())[:, None, :, None].double()
xPos that clips far positions without a word
  Xpos._prepared  position/test_xpos.py::test_positions_beyond_the_range_are_refused
  - farthest > allowed
  + farthest > allowed and farthest < 0
xPos that acts in an encoder
  check_role  position/test_xpos.py::test_it_is_refused_where_keys_may_be_ahead
  - scheme.causal_only and role != "decoder"
  + scheme.causal_only and role == "cross"
a gradient that is divided by a factor of xPos instead of multiplied
  Rotations.of  position/test_xpos.py::test_gradients_by_differences
  - turn.conj().resolve_conj()
  + 1 / turn
partial RoPE with the frequencies of the whole head
  Rope.frequencies  position/test_rope.py::test_partial_of_another_implementation
  - frequencies(self.turned, self.base, device)
  + frequencies(self.shape.head_dim, self.base, device)[: self.turned // 2]
scaled RoPE that divides the frequencies to be kept
  LinearScaling.scaled  position/test_rope_scaling.py::test_llama3_worked_out
  - step * (gamma + (1 - gamma) / self.factor)
  + step * (1 - gamma + gamma / self.factor)
the frequencies of Llama 3 between the ends linear in the wavelength instead of the turns
  Llama3Scaling.kept  position/test_rope_scaling.py::test_llama3_worked_out
  - ((turns - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor)).clamp(0, 1)
  + ((1 / turns - 1 / self.low_freq_factor) / (1 / self.high_freq_factor - 1 / self.low_freq_factor)).clamp(0, 1)
YaRN whose ends are not rounded
  YarnScaling.kept  position/test_rope_scaling.py::test_yarn_worked_out
  - self.truncate
  + False
YaRN over channels instead of pairs
  YarnScaling.kept  position/test_rope_scaling.py::test_yarn_worked_out
  - channels = 2 * len(step)
  + channels = len(step)
YaRN that ends at the last pair at most
  YarnScaling.kept  position/test_rope_scaling.py::test_yarn_that_ends_beyond_the_last_pair
  - min(last, channels - 1)
  + min(last, channels // 2 - 1)
YaRN without its factor, or with it on scores once
  Rope.rotations  position/test_rope_scaling.py::test_yarn_multiplies_scores_by_the_square_of_its_factor
  - circle(angle) * self.scaling.magnitude
  + circle(angle) * self.scaling.magnitude**0.5
YaRN with the formula of one `mscale` where both are given
  YarnScaling.magnitude  position/test_rope_scaling.py::test_other_implementation
  - (over * growth + 1.0) / (under * growth + 1.0)
  + over * growth + 1.0
partial RoPE that turns the last channels
  Rope.rotate  position/test_rope.py::test_partial_is_rope_on_the_first_channels
  - torch.cat([self.rotate(x[..., : self.turned], context, side), x[..., self.turned :]], dim=-1)
  + torch.cat([x[..., : -self.turned], self.rotate(x[..., -self.turned :], context, side)], dim=-1)
a share of channels rounded without a word
  _part  position/test_contract.py::test_bad_options_are_refused
  - part < 2 or part % 2 or abs(part - channels * share) > 1e-6
  + part < 2 or part % 2
axial RoPE with columns before rows
  AxialRope.rotations  position/test_axial_rope.py::test_values_of_another_implementation
  - context.positions
  + context.positions.flip(-1)
axial RoPE whose axes share the frequencies of the whole head
  AxialRope.rotations  position/test_axial_rope.py::test_worked_example
  - frequencies(share, self.base, at.device)
  + frequencies(self.shape.head_dim, self.base, at.device)[: share // 2]
axial RoPE whose axes all have the row's position
  AxialRope.rotations  position/test_axial_rope.py::test_each_axis_turns_its_own_channels
  - at[..., i, None]
  + at[..., 0, None]
axial RoPE with the base of texts
  AxialRope.__init__  position/test_axial_rope.py::test_worked_example
  - self.base, self.shares = base, shares(shape.structure, shape.head_dim)
  + self.base, self.shares = 10_000.0, shares(shape.structure, shape.head_dim)
real positions that are rounded down
  AxialRope.rotations  position/test_contract.py::test_half_a_turn_twice_is_a_whole_one
  - context.positions
  + context.positions.long()
mixed RoPE with one frame for all heads
  MixedRope.__init__  position/test_mixed_rope.py::test_frames_are_rotations_of_any_dimension
  - random_orthogonal((shape.heads, len(axis_shares), len(axis_shares)), shape.generator)
  + random_orthogonal((1, len(axis_shares), len(axis_shares)), shape.generator).repeat(shape.heads, 1, 1)
mixed RoPE whose frames may be mirrored
  MixedRope.__init__  position/test_mixed_rope.py::test_frames_are_rotations_of_any_dimension
  - frame[..., -1] *= torch.linalg.det(frame)[:, None]
mixed RoPE with the axes exchanged
  MixedRope.rotations  position/test_mixed_rope.py::test_values_of_another_implementation
  - context.positions.double()
  + context.positions.double().flip(-1)
LieRE with exp(x A) exp(y B) in the place of exp(x A + y B)
  Lie.operators  position/test_lie.py::test_values_of_another_implementation
  - exponential(combined(self.free, places))
  + exponential(combined(self.free[:1], places[:, :1])) @ exponential(combined(self.free[-1:], places[:, -1:]))
LieRE with the transposed operators
  Lie.operators  position/test_lie.py::test_values_of_another_implementation
  - exponential(combined(self.free, places))
  + exponential(combined(self.free, places)).mT
LieRE that claims to be a homomorphism on grids
  Lie.__init__  position/test_lie.py::test_composition_fails_on_grids_and_holds_where_generators_commute
  - axes == 1 or self.block == 2
  + axes >= 1
LieRE whose axes start with one generator
  Lie.__init__  position/test_lie.py::test_it_starts_near_the_identity_and_generators_do_not_commute
  - basis = random_orthogonal((axes, count, self.block, self.block), shape.generator)
  + basis = random_orthogonal((1, count, self.block, self.block), shape.generator).expand(axes, -1, -1, -1)
LieRE with exponentials in float32, wrong at far positions
  combined  position/test_lie.py::test_far_positions_keep_their_digits_in_float32
  - torch.tensordot(places.double(), skew(free.double()), dims=1)
  + torch.tensordot(places.to(free.dtype), skew(free), dims=1)
blocks taken across heads
  Lie.rotate_in_basis  position/test_lie.py::test_against_an_exponential_for_each_token
  - rotated.unflatten(1, (x.shape[1], -1)).transpose(2, 3)
  + rotated.unflatten(1, (-1, x.shape[1])).transpose(1, 2).transpose(2, 3)
operators of an encoder's positions given to other positions of the decoder
  Lie._table  position/test_lie.py::test_a_decoder_takes_the_operators_of_its_encoder
  - number[which[count:]]
  + which[count:]
positions that differ in one coordinate taken for the same
  _distinct  position/test_lie.py::test_there_is_one_operator_for_each_distinct_position
  - which * len(distinct) + number
  + which + number
padding as nodes of the graph
  features_of  position/test_wire.py::test_a_row_is_the_same_in_any_order_and_with_padding
  - row[there & (row > 0)]
  + row[row > 0]
a decoder that reads the tree of the target that it writes
  Wire._prepared  position/test_wire.py::test_the_targets_own_tree_is_not_read
  - not context.causal
  + not context.causal or shared_with is not None
a target that is given the features of the source's padding
  looked_up  position/test_wire.py::test_a_target_has_the_features_of_the_source_s_nodes
  - same = same & source.mask[:, None]
a node that the source lacks with the features of another one
  looked_up  position/test_wire.py::test_a_target_has_the_features_of_the_source_s_nodes
  - found * same.any(-1, keepdim=True)
  + found
the sign of an eigenvector read from the first child
  of_tree  evaluation/test_relations.py::test_each_relation_holds
  - ~joined
  + heap == 2
the normalised Laplacian
  of_tree  position/test_wire.py::test_values_of_another_implementation
  - np.diag(degree) - adjacent
  + np.diag(degree > 0) - adjacent / np.sqrt(np.outer(degree, degree).clip(1))
the constant eigenvector as a feature
  _seen_from  position/test_wire.py::test_values_of_another_implementation
  - np.add.reduceat(vector * vector[roots].sum(0), begins, axis=1)[:, 1:]
  + np.add.reduceat(vector * vector[roots].sum(0), begins, axis=1)
the eigenvectors of a repeated eigenvalue projected one by one
  of_tree  position/test_wire.py::test_a_repeated_eigenvalue_is_one_feature
  - np.diff(value, prepend=-1) > _NONE
  + np.diff(value, prepend=-1) > -1
random walks of 1 to m steps, of which a tree has no odd ones
  of_tree  position/test_wire.py::test_a_path_of_three_nodes_worked_out
  - (power**2).sum(1)
  + power.diagonal()
a decoder-only model with a scheme that needs the tree of an encoder
  check_without_encoder  position/test_wire.py::test_it_is_refused_without_an_encoder
  - scheme is not None and scheme.needs_encoder
  + scheme is not None and scheme.causal_only
""")
