"""Mistakes in schemes and structures."""

from __future__ import annotations

from tests.mistakes._mistake import read

MISTAKES = read("""
sinusoids of the first position for all tokens
  Sinusoidal.vectors  evaluation/test_laws.py::test_every_law_that_is_claimed_holds
  - sinusoids(coordinates, self.shape.d_model // axes)
  + sinusoids(coordinates[:, :1], self.shape.d_model // axes)
rotary pairs along the heads instead of the channels
  _pairs  models/test_reference.py::test_the_model_is_the_plain_one
  - pairs = x.unflatten(-1, (-1, 2))
  + b, h, n, k = x.shape
  + mixed = x.permute(0, 2, 3, 1).reshape(b, n, h, k).transpose(1, 2)
  + pairs = mixed.unflatten(-1, (-1, 2))
both sides contracted with the same transpose (sequences)
  Rope.rotate  evaluation/test_laws.py::test_every_law_that_is_claimed_holds
  - return rotate_pairs(x, rotations) if self.interleaved else rotate_halves(x, rotations)
  + if side == 'key':
  +     rotations = Rotations(-rotations.angle)
  + return rotate_pairs(x, rotations) if self.interleaved else rotate_halves(x, rotations)
both sides contracted with the same transpose (trees)
  Orthogonal.rotate_in_basis  evaluation/test_laws.py::test_every_law_that_is_claimed_holds
  - return operators(x) if self.side in ("both", side) else x
  + from ape_cli.position._grouped import Products
  + if side == 'key' and isinstance(operators, Products):
  +     operators = Products(operators.stages, operators.table.mT, operators.rows)
  + return operators(x)
tree paths off by one: SOS at the root's place
  Branches.prepare  models/test_reference.py::test_the_model_is_the_plain_one
  - heap = np.maximum(positions.detach().cpu().numpy().ravel(), 1)
  + heap = positions.detach().cpu().numpy().ravel() + 1
the path composed from the leaf up instead of from the root down
  Branches.table  position/test_grouped.py::test_every_reach_is_the_product_along_the_path
  - below = (above @ w).unflatten(2, (-1, self.channels))
  + below = w[:, :, None] @ above.unflatten(1, (-1, self.channels))
one set of generators used for all heads
  Branches.table  evaluation/test_laws.py::test_every_law_that_is_claimed_holds
  - w = self._exact_generators()
  + w = self._exact_generators()[:, :1].expand(-1, self.heads, -1, -1)
all branches initialised in one basis: left and right commute
  Branches.__init__  position/test_orthogonal.py::test_branches_do_not_commute
  - basis = random_orthogonal((k, heads, channels, channels), generator)
  + basis = random_orthogonal((1, heads, channels, channels), generator).expand(k, -1, -1, -1)
all heads initialised alike
  start_angles  position/test_orthogonal.py::test_generators_are_orthogonal_near_identity_and_distinct
  - return angle.view(pairs, generators, heads).permute(1, 2, 0).contiguous()
  + return angle.view(pairs, generators, heads)[:, :1, :1].expand(-1, generators, heads).permute(1, 2, 0)
half of the initial angles duplicated
  start_angles  position/test_orthogonal.py::test_generators_are_orthogonal_near_identity_and_distinct
  - quantile = (torch.arange(count, dtype=torch.float64) + 0.5) / count
  + quantile = (torch.arange(count, dtype=torch.float64) // 2 * 2 + 0.5) / count
distances that depend on the deepest tree of the batch
  Tree.distance  evaluation/test_laws.py::test_every_law_that_is_claimed_holds
  - return depth_x + depth_y - 2 * (shallow - apart)
  + return depth_x + depth_y - 2 * (shallow - apart) + (depth_x.max() - depth_x)
a positional table that is built and not used
  Sinusoidal.embed  evaluation/test_laws.py::test_every_law_that_is_claimed_holds
  - return x + self.vectors(context.positions).to(x.dtype)
  + return x
a positional table broadcast from a single position
  Sinusoidal.embed  evaluation/test_laws.py::test_every_law_that_is_claimed_holds
  - return x + self.vectors(context.positions).to(x.dtype)
  + return x + self.vectors(context.positions)[:, :1].to(x.dtype)
a bias that never reaches cross-attention
  Relative.bias  evaluation/test_laws.py::test_every_law_that_is_claimed_holds
  - offsets, w = q_context.cached(k_context, self.vectors)
  + if q_context is not k_context:
  +     return q.new_zeros(1)
  + offsets, w = q_context.cached(k_context, self.vectors)
Shaw's term without 1/sqrt(K)
  Relative.bias  models/test_reference.py::test_the_model_is_the_plain_one
  - q * q.shape[-1] ** -0.5
  + q
Shiv and Quirk's weights in the wrong order across the levels
  ShivQuirkTree.vectors  models/test_reference.py::test_the_model_is_the_plain_one
  - weight[:, :, None]
  + weight.flip(1)[:, :, None]
Shiv and Quirk's vectors normalised by the wrong width
  ShivQuirkTree.vectors  position/test_tree.py::test_length_is_about_that_of_the_sinusoidal_vector
  - (self.tree.branching * self.shape.max_size / 2)
  + (self.shape.d_model / 2)
a rotary cache keyed on length alone
  Rope.rotations  position/test_rope.py::test_the_base_is_followed_at_once
  - angle = positions[:, None, :, None] * step[:, None]
  + angle = self.__dict__.setdefault('cache', {}).setdefault(
  +     positions.shape[1], positions[:, None, :, None] * step[:, None]
  + )
channels paired by halves instead of neighbours
  Rope.rotate  position/test_rope.py::test_both_pairings_of_other_implementations
  - rotate_pairs(x, rotations) if self.interleaved else rotate_halves(x, rotations)
  + rotate_pairs(x, rotations) if not self.interleaved else rotate_halves(x, rotations)
a ring that does not close, because its angles do not divide a full turn
  Ring.unit  position/test_algebra.py::test_a_ring_closes_exactly
  - 2 * math.pi / self.order
  + 2 * math.pi / (self.order + 1)
a ring without its last character
  Ring.multiples  position/test_algebra.py::test_a_ring_closes_exactly
  - self.order // 2 + 1
  + self.order // 2
all factors of a product read the same coordinate
  DirectSum.prepare  position/test_algebra.py::test_a_sequence_of_trees
  - [part.prepare(positions[..., i], plans[i], others[i]) for i, part in enumerate(self.factors())]
  + [part.prepare(positions[..., 0], plans[i], others[i]) for i, part in enumerate(self.factors())]
the absolute variant on both sides
  Orthogonal.rotate_in_basis  position/test_algebra.py::test_the_absolute_variant_turns_one_side
  - self.side in ("both", side)
  + self.side
a child of a ternary tree with the parent of a binary one
  Tree.ancestor  structure/test_structure.py::test_trees_of_any_branching
  - return (heap - self.level_start(up)) // self.branching**up + 1
  + return heap >> up
T5's scalars that start as normal draws
  T5.__init__  position/test_contract.py::test_normal_draws_start_at_their_size
  - 0.02 * start
  + start
T5's directions exchanged
  T5.bucket  position/test_t5.py::test_buckets_of_another_implementation
  - ahead = count * (offset > 0)
  + ahead = count * (offset < 0)
T5's decoder with the encoder's buckets
  T5.terms.term  position/test_t5.py::test_scalars_of_the_right_part_head_and_bucket
  - both_ways=part != _DECODER
  + both_ways=True
Transformer-XL's offset with the wrong sign
  TransformerXl.projected  position/test_transformer_xl.py::test_scores_of_another_implementation
  - -offsets.distinct
  + offsets.distinct
Transformer-XL without its global content term u k
  TransformerXl.rotate  models/test_reference.py::test_the_model_is_the_plain_one
  - return x + self.u[:, None].to(x.dtype) if side == "query" else x
  + return x
a learned matrix whose basis is not turned back
  MatrixPower.power  position/test_matrix_power.py::test_learned_starts_at_the_given_angles
  - return (rotated @ q.mT).to(v.dtype)
  + return rotated.to(v.dtype)
a learned table read one row late
  Learned.embed  models/test_reference.py::test_the_model_is_the_plain_one
  - at = context.positions.clamp(max=self.shape.max_size)
  + at = (context.positions + 1).clamp(max=self.shape.max_size)
the locality bias given to one scheme only
  Scheme.decay  models/test_reference.py::test_the_model_is_the_plain_one
  - self.shape.decay == 1.0
  + self.shape.decay == 1.0 or self.default_decay == 1.0
a table of grids with columns before rows
  Sinusoidal.vectors  position/test_sinusoidal.py::test_a_grid_by_hand
  - sinusoids(coordinates, self.shape.d_model // axes)
  + sinusoids(coordinates.flip(-1), self.shape.d_model // axes)
a table of grids whose axes all have the row's
  Sinusoidal.vectors  position/test_sinusoidal.py::test_a_grid_by_hand
  - sinusoids(coordinates, self.shape.d_model // axes)
  + sinusoids(coordinates[..., :1].expand_as(coordinates), self.shape.d_model // axes)
a Euclidean distance without the square root
  Grid.straight  position/test_orthogonal_grid.py::test_distances_by_hand
  - return sum((1.0 * steps) ** 2 for steps in apart) ** 0.5
  + return sum((1.0 * steps) ** 2 for steps in apart)
Euclidean distances in units of the largest grid of the batch
  OrthogonalGrid.decay  evaluation/test_laws.py::test_every_law_that_is_claimed_holds
  - self.structure.straight(q_at, k_at).double()
  + self.structure.straight(q_at, k_at).double() * 4 / k_at.amax().clamp(min=4)
a distance that only the encoder's self-attention uses
  OrthogonalGrid.decay  models/test_reference.py::test_the_model_is_the_plain_one
  - self.metric == "path"
  + self.metric == "path" or q_context is not k_context
the backward pass rotates forwards instead of back
  _Rotate.forward  position/test_rotation.py::test_gradients_by_differences
  - ctx.back, ctx.shape = back, angle.shape
  + ctx.back, ctx.shape = rotation, angle.shape
the pieces of a path in the wrong order: the first steps act first
  Branches._pieces  position/test_grouped.py::test_every_reach_is_the_product_along_the_path
  - self._number(heap[on], depth[on], above, reach)
  + self._number(heap[on], depth[on], reach * (np.maximum(depth[on] - 1, 0) // reach) - above, reach)
operators made in the 16 bits of the weights
  exact  position/test_half.py::test_operators_keep_lengths_at_every_depth
  - x.double() if x.is_cuda else x.to(torch.promote_types(x.dtype, torch.float32))
  + x
vectors rounded to 16 bits after each step of a path
  Products.__call__  position/test_half.py::test_operators_keep_lengths_at_every_depth
  - wide.reshape(copies, rows, h, n, k)
  + x.reshape(copies, rows, h, n, k)
products of operators rounded by autocast
  exponential  position/test_half.py::test_autocast_rounds_no_operators
  - torch.autocast(s.device.type, enabled=False)
  + torch.autocast(s.device.type, enabled=True)
angles without a gradient in a compiled function
  _written_out  position/test_compiled.py::test_other_positions_and_lengths
  - (rotations.angle - rotations.angle.detach())
  + 0 * rotations.angle.detach()
operators of other positions in a compiled function, from those of its first call
  Branches._numbers  position/test_compiled.py::test_hooks_in_one_graph
  - heap.clamp(min=1)
  + torch.arange(1, len(heap) + 1)
diagonals shifted by one
  Offsets.spread  position/test_offsets.py::test_each_pair_has_the_term_of_its_offset
  - terms.flatten(2)[:, :, m - 1 : m - 1 + m * (count - 1)]
  + terms.flatten(2)[:, :, m : m + m * (count - 1)]
any single row of positions assumed to be consecutive
  run_of  position/test_offsets.py::test_what_is_not_consecutive_is_gathered
  - return first if torch.equal(positions[0], torch.arange(first, first + positions.shape[1])) else None
  + return first
a result of one pair of contexts given to another pair
  Context.cached  position/test_context.py::test_a_pair_s_own
  - key = compute, id(other), torch.is_grad_enabled()
  + key = compute, torch.is_grad_enabled()
the basis in the projection of one side only
  Attention._projected  position/test_frame.py::test_projections_in_the_frame_change_nothing
  - query, key, value = (self.query, q_basis), (self.key, k_basis), (self.value, None)
  + query, key, value = (self.query, q_basis), (self.key, None), (self.value, None)
the transpose of the basis in the projections
  Attention._project  position/test_frame.py::test_projections_in_the_frame_change_nothing
  - transposed = basis.mT.to(weight.dtype)
  + transposed = basis.to(weight.dtype)
a bias in float32 is given to torch beside float64 queries, and the result is wrong
  additive  attention/test_backend.py::test_a_bias_of_another_dtype_is_added_as_it_is
  - bias.to(dtype)
  + bias
a scheme that adds absolute positions to the tokens counts as relative
  relative  position/test_rules.py::test_the_check_finds_each_mistake_once
  - embedded[0] - embedded[1]
  + embedded[0] - embedded[0]
offsets with the wrong sign: query - key
  apart  reports/pictures/test_places.py::test_an_offset_is_key_minus_query
  - offset = at[None, :] - at[:, None]
  + offset = at[:, None] - at[None, :]
contents of length 1, so that an operator's share is not 1 at equal positions
  _of_heads  evaluation/test_position_scores.py::test_rope_is_the_mean_of_the_cosines
  - k**0.25
  + 1.0
the scores of keys at other queries for those of a query at the node
  diagram  reports/pictures/test_nodes.py::test_numbers_are_those_of_a_query_there
  - subject.scores.mean(0)[chosen]
  + subject.scores.mean(0)[:, chosen]
""")
