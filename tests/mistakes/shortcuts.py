"""Mistakes in optimisations of schemes and attention. All give the right shape, and most are right in some cases."""

from __future__ import annotations

from tests.mistakes._mistake import Mistake

MISTAKES = [
    # exponential of skew-symmetric matrices
    Mistake(
        "one halving too few, so that the polynomial is not accurate",
        "exponential",
        "max(0, math.frexp(norm)[1])",
        "max(0, math.frexp(norm)[1] - 1)",
        "position/test_exponential.py::test_just_below_a_power_of_two",
    ),
    Mistake(
        "one squaring fewer than halvings",
        "_taylor",
        "range(halvings)",
        "range(halvings - 1)",
        "position/test_exponential.py::test_values",
    ),
    Mistake(
        "the polynomial of float32 for float64 too",
        "_taylor",
        "last = 9 if s.dtype == torch.float32 else 15",
        "last = 9",
        "position/test_exponential.py::test_just_below_a_power_of_two",
    ),
    # the rotation of pairs
    Mistake(
        "the backward pass rotates forwards instead of back",
        "_Turning.forward",
        "ctx.back, ctx.shape = back, angle.shape",
        "ctx.back, ctx.shape = turn, angle.shape",
        "position/test_rotation.py::test_gradients_by_differences",
    ),
    Mistake(
        "the gradient of angles without its conjugate",
        "_Turning.backward",
        "(pairs * _pairs(out).conj())",
        "(pairs * _pairs(out))",
        "position/test_rotation.py::test_gradients_by_differences",
    ),
    Mistake(
        "channel pairs that start at an even storage offset instead of the tensor's own",
        "_pairs",
        "return torch.view_as_complex(pairs)",
        """
        even = x.storage_offset() // 2 * 2
        pairs = x.as_strided(pairs.shape, pairs.contiguous().stride(), even)
        return torch.view_as_complex(pairs)
        """,
        "position/test_rotation.py::test_strides_change_nothing",
    ),
    # paths from stage to stage
    Mistake(
        "the pieces of a path in the wrong order: the first steps act first",
        "Branches._pieces",
        "down = np.minimum(depth[on] - above, reach)",
        """
        above = reach * (np.maximum(depth[on] - 1, 0) // reach) - above
        down = np.minimum(depth[on] - above, reach)
        """,
        "position/test_walk.py::test_every_reach_is_the_product_along_the_path",
    ),
    Mistake(
        "the decoder's own reach used with the encoder's table",
        "Branches.prepare",
        "reach = beside.reach if beside else self._reach(heap.size, deepest)",
        "reach = self._reach(heap.size, deepest)",
        "position/test_walk.py::test_a_deeper_decoder_beside_its_encoder",
    ),
    Mistake(
        "generators computed again for the decoder",
        "Branches._shared",
        "return beside.table if beside else WalkTable(self.table(reach))",
        "return Table(self.table(reach))",
        "position/test_walk.py::test_generators_are_made_once_for_both",
    ),
    Mistake(
        "vectors without an operator are lost",
        "_Walking.forward",
        "idle_out.copy_(idle)",
        "idle_out.zero_()",
        "position/test_walk.py::test_any_operators",
    ),
    Mistake(
        "no gradient for vectors without an operator",
        "_Walking.backward",
        "back_idle.copy_(idle)",
        "back_idle.zero_()",
        "position/test_walk.py::test_any_operators",
    ),
    Mistake(
        "the gradient of empty places added to operators",
        "_Walking.backward",
        "there.index_fill_(0, walk.empty[i], 0.0)",
        "pass",
        "position/test_walk.py::test_any_operators",
    ),
    Mistake(
        "an operator's gradient from only the last of its stages",
        "_Walking.backward",
        "found.index_add_(0, stage.operators, of_operators)",
        "found.index_copy_(0, stage.operators, of_operators)",
        "position/test_walk.py::test_any_operators",
    ),
    Mistake(
        "operators that are not transposed back in the backward pass",
        "_Walking.backward",
        "stage.of(walk.table, grad.dtype, False)",
        "stage.of(walk.table, grad.dtype, True)",
        "position/test_walk.py::test_any_operators",
    ),
    Mistake(
        "results of one stage that the next stage does not receive",
        "_Walking.forward",
        "here.index_copy_(0, walk.onward[i - 1], met.index_select(0, walk.place[i - 1]))",
        "pass",
        "position/test_walk.py::test_any_operators",
    ),
    # products of powers
    Mistake(
        "all axes of a grid read the same coordinate",
        "Joint.prepare",
        "part.turns(positions[..., i])",
        "part.turns(positions[..., 0])",
        "position/test_algebra.py::test_a_grid_is_a_block_for_each_axis",
    ),
    # offsets
    Mistake(
        "diagonals shifted by one",
        "Offsets.spread",
        "terms.flatten(2)[:, :, m - 1 : m - 1 + m * (count - 1)]",
        "terms.flatten(2)[:, :, m : m + m * (count - 1)]",
        "position/test_offsets.py::test_each_pair_has_the_term_of_its_offset",
    ),
    Mistake(
        "a lone query without its last key",
        "Offsets.spread",
        "m == 1",
        "count == 1",
        "position/test_offsets.py::test_a_prefix_is_scored_alike",
    ),
    Mistake(
        "offsets of indices instead of positions, so that a decoder's SOS is at its encoder's first token",
        "_along_a_line",
        "ahead = k_context.start - q_context.start",
        "ahead = 0",
        "position/test_offsets.py::test_one_line_is_the_same_as_rows_of_it",
    ),
    Mistake(
        "any single row of positions assumed to be consecutive",
        "run_of",
        "return first if torch.equal(positions[0], torch.arange(first, first + positions.shape[1])) else None",
        "return first",
        "position/test_offsets.py::test_what_is_not_consecutive_is_gathered",
    ),
    # plans and tiles, which a GPU uses
    Mistake(
        "the gradient of a tile's empty places added to its operator",
        "_Meeting.backward",
        "grad.index_select(0, ctx.stage.take) * ctx.stage.filled.to(grad.dtype)",
        "grad.index_select(0, ctx.stage.take)",
        "position/test_tiles.py::test_tiles_are_the_product_along_the_path",
    ),
    Mistake(
        "vectors without a piece of a path get the operator of some other piece",
        "Branches.plan",
        "met = np.zeros_like(heap)",
        "met = np.ones_like(heap)",
        "position/test_tiles.py::test_tiles_are_the_product_along_the_path",
    ),
    Mistake(
        "a plan of the decoder with a table of its own length",
        "Branches.plan",
        "reach = beside.sizes[0] if beside else self._tiled_reach(heap.size)",
        "reach = self._tiled_reach(heap.size)",
        "position/test_tiles.py::test_a_decoder_takes_its_encoders_table",
    ),
    Mistake(
        "as many tiles as a batch needs, instead of as many as its shape can need",
        "cut",
        "total = which.size // TILE + operators",
        "total = int(tiles.sum())",
        "position/test_tiles.py::test_plans_of_one_shape_have_one_shape",
    ),
    # padding
    Mistake(
        "padded places that are read as tokens",
        "_pad",
        "mask = np.arange(length) < side.length_of(own)[:, None]",
        "mask = np.arange(length) < np.maximum(side.length_of(own)[:, None], length - 1)",
        "data/test_padding.py::test_few_lengths_change_nothing",
    ),
    # results that layers share
    Mistake(
        "a result of one pair of contexts given to another pair",
        "Context.once",
        "key = (make.__qualname__, id(other))",
        "key = make.__name__",
        "position/test_context.py::test_a_pair_s_own",
    ),
    Mistake(
        "the results of two functions of a pair confused",
        "Context.once",
        "key = (make.__qualname__, id(other))",
        "key = id(other)",
        "position/test_context.py::test_a_pair_s_own",
    ),
    Mistake(
        "a new context confused with a deleted one that had the same id",
        "Context.once",
        "held = None if other is self else other",
        "held = None",
        "position/test_context.py::test_a_second_that_is_gone_is_not_mistaken_for_a_new_one",
    ),
    Mistake(
        "a context that refers to itself, so that its forward pass is not freed",
        "Context.once",
        "held = None if other is self else other",
        "held = other",
        "position/test_context.py::test_nothing_outlives_its_pass",
    ),
    # frames
    Mistake(
        "the frame in the projection of one side only",
        "Attention._projected",
        "[(self.key, k_frame), (self.value, None)]",
        "[(self.key, None), (self.value, None)]",
        "position/test_frame.py::test_projections_in_the_frame_change_nothing",
    ),
    Mistake(
        "the frame's transpose in the projections",
        "Attention._framed",
        "turn = frame.mT.to(weight.dtype)",
        "turn = frame.to(weight.dtype)",
        "position/test_frame.py::test_projections_in_the_frame_change_nothing",
    ),
    Mistake(
        "the frame without the projections' bias",
        "Attention._framed",
        "bias = (turn @ bias.view(self.heads, -1, 1)).flatten()",
        "pass",
        "position/test_frame.py::test_projections_in_the_frame_change_nothing",
    ),
    Mistake(
        "the frame applied twice, in the projections and in the rotation",
        "turned",
        "act = scheme.turn if link.framed else scheme.rotate",
        "act = scheme.rotate",
        "position/test_frame.py::test_projections_in_the_frame_change_nothing",
    ),
    Mistake(
        "a factor without a frame whose channels are lost",
        "blocks",
        "torch.eye(share, dtype=some.dtype, device=some.device)",
        "torch.zeros(share, share, dtype=some.dtype, device=some.device)",
        "position/test_frame.py::test_a_product_s_frame_is_that_of_its_factors",
    ),
    # learned biases
    Mistake(
        "a learned bias added to scores without 1/sqrt(K)",
        "scaled",
        "return (q * q.shape[-1] ** -0.5) @ k.mT",
        "return q @ k.mT",
        "attention/test_dot.py::test_a_learned_bias_is_that_of_torch",
    ),
    Mistake(
        "a learned bias with which queries see padding and later keys",
        "average",
        "link.hidden is not None",
        "link.hidden is not None and link.decay is not None",
        "attention/test_dot.py::test_a_learned_bias_is_that_of_torch",
    ),
    Mistake(
        "a fused bias with which queries see padding and later keys",
        "additive",
        'return bias if link.hidden is None else bias.masked_fill(link.hidden, float("-inf"))',
        "return bias",
        "attention/test_dot.py::test_what_is_not_learned_takes_the_fused_path",
    ),
    Mistake(
        "FlexAttention that sees too few keys in a part of the queries",
        "score_mod.modify",
        "key <= query + first",
        "key <= query",
        "attention/test_backend.py::test_some_of_the_queries_see_what_they_see_among_all",
    ),
    Mistake(
        "FlexAttention that adds the locality bias instead of multiplying by it",
        "score_mod.modify",
        "score * decay[_at(decay, 0, row), 0, m, n]",
        "score + decay[_at(decay, 0, row), 0, m, n].log()",
        "attention/test_backend.py::test_every_backend_gives_the_same",
    ),
    Mistake(
        "FlexAttention whose softmax includes padding",
        "score_mod.modify",
        'return torch.where(key < keys, score, -float("inf"))',
        "return score",
        "attention/test_backend.py::test_every_backend_gives_the_same",
    ),
    Mistake(
        "blocks of queries of which each sees as far as the first one",
        "Link.part",
        "first=self.first + begin",
        "first=0",
        "attention/test_blocks.py::test_in_blocks_as_at_once",
    ),
    Mistake(
        "blocks of queries at the positions of the first one",
        "Link.part",
        "q_context=self.q_context.part(begin, end)",
        "q_context=self.q_context.part(0, end - begin)",
        "attention/test_blocks.py::test_in_blocks_as_at_once",
    ),
    Mistake(
        "gradients with other dropout masks than the forward pass",
        "each",
        "preserve_rng_state=rng",
        "preserve_rng_state=False",
        "attention/test_blocks.py::test_dropout_is_drawn_again_as_it_was",
    ),
    Mistake(
        "freed memory that is returned to the system",
        "keep_memory",
        "mallopt(_MMAP_THRESHOLD, 2**30)",
        "mallopt(_MMAP_THRESHOLD, 2**10)",
        "core/test_runtime.py::test_memory_is_kept",
    ),
]
