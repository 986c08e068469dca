"""Mistakes in what makes schemes and attention fast: all give the right shape, most the right value somewhere."""

from __future__ import annotations

from tests.mistakes._mistake import Mistake

MISTAKES = [
    # the exponential of skew matrices
    Mistake(
        "one halving too few: a polynomial beyond its reach",
        "position/_orthogonal.py",
        "max(0, math.frexp(norm)[1])",
        "max(0, math.frexp(norm)[1] - 1)",
        "position/test_exponential.py::test_just_below_a_power_of_two",
    ),
    Mistake(
        "halved, and squared once too few",
        "position/_orthogonal.py",
        "for _ in range(halvings):",
        "for _ in range(halvings - 1):",
        "position/test_exponential.py::test_values",
    ),
    Mistake(
        "the polynomial of float32 for float64 too",
        "position/_orthogonal.py",
        "last = 9 if s.dtype == torch.float32 else 15",
        "last = 9",
        "position/test_exponential.py::test_just_below_a_power_of_two",
    ),
    # the rotation of pairs
    Mistake(
        "turned on instead of back in the backward pass",
        "position/_rotation.py",
        "ctx.back, ctx.shape = back, angle.shape",
        "ctx.back, ctx.shape = turn, angle.shape",
        "position/test_rotation.py::test_gradients_by_differences",
    ),
    Mistake(
        "the gradient of angles without its conjugate",
        "position/_rotation.py",
        "(pairs * _pairs(out).conj())",
        "(pairs * _pairs(out))",
        "position/test_rotation.py::test_gradients_by_differences",
    ),
    Mistake(
        "channels in pairs wherever they stand in memory",
        "position/_rotation.py",
        "    return torch.view_as_complex(pairs)",
        "    even = x.storage_offset() // 2 * 2\n"
        "    pairs = x.as_strided(pairs.shape, pairs.contiguous().stride(), even)\n"
        "    return torch.view_as_complex(pairs)",
        "position/test_rotation.py::test_strides_change_nothing",
    ),
    # walks
    Mistake(
        "the pieces of a path in the wrong order: the first steps act first",
        "position/_branches.py",
        "            down = np.minimum(depth[on] - above, reach)",
        "            above = reach * (np.maximum(depth[on] - 1, 0) // reach) - above\n"
        "            down = np.minimum(depth[on] - above, reach)",
        "position/test_walk.py::test_every_reach_is_the_product_along_the_path",
    ),
    Mistake(
        "the encoder's table cut at the decoder's own reach",
        "position/_branches.py",
        "reach = beside.reach if beside else self._reach(heap.size, deepest)",
        "reach = self._reach(heap.size, deepest)",
        "position/test_walk.py::test_a_deeper_decoder_beside_its_encoder",
    ),
    Mistake(
        "generators made again for the decoder",
        "position/_branches.py",
        "return beside.table if beside else Table(self.table(reach))",
        "return Table(self.table(reach))",
        "position/test_walk.py::test_generators_are_made_once_for_both",
    ),
    Mistake(
        "vectors that meet no operator lost on the way",
        "position/_walk.py",
        "idle_out.copy_(idle)",
        "idle_out.zero_()",
        "position/test_walk.py::test_any_operators",
    ),
    Mistake(
        "no gradient for vectors that meet no operator",
        "position/_walk.py",
        "back_idle.copy_(idle)",
        "back_idle.zero_()",
        "position/test_walk.py::test_any_operators",
    ),
    Mistake(
        "the gradient of empty places added to operators",
        "position/_walk.py",
        "there.index_fill_(0, walk.empty[i], 0.0)",
        "pass",
        "position/test_walk.py::test_any_operators",
    ),
    Mistake(
        "an operator's gradient from the last of its stages alone",
        "position/_walk.py",
        "found.index_add_(0, stage.operators,",
        "found.index_copy_(0, stage.operators,",
        "position/test_walk.py::test_any_operators",
    ),
    Mistake(
        "operators that are not transposed back in the backward pass",
        "position/_walk.py",
        "stage.of(walk.table, grad.dtype, False)",
        "stage.of(walk.table, grad.dtype, True)",
        "position/test_walk.py::test_any_operators",
    ),
    Mistake(
        "vectors of a stage before that keep what they were given",
        "position/_walk.py",
        "here.index_copy_(0, walk.onward[i - 1], met.index_select(0, walk.place[i - 1]))",
        "pass",
        "position/test_walk.py::test_any_operators",
    ),
    # products of powers
    Mistake(
        "the axes of a grid read one coordinate",
        "position/_powers.py",
        "part.turns(positions[..., i])",
        "part.turns(positions[..., 0])",
        "position/test_algebra.py::test_a_grid_is_a_block_for_each_axis",
    ),
    # offsets
    Mistake(
        "diagonals shifted by one",
        "position/_offsets.py",
        "[:, :, m - 1 : m - 1 + m * (count - 1)]",
        "[:, :, m : m + m * (count - 1)]",
        "position/test_offsets.py::test_each_pair_has_the_term_of_its_offset",
    ),
    Mistake(
        "a lone query without its last key",
        "position/_offsets.py",
        "if m == 1:",
        "if count == 1:",
        "position/test_offsets.py::test_a_prefix_is_scored_alike",
    ),
    Mistake(
        "offsets between places in memory instead of positions: a decoder's SOS at its encoder's first token",
        "position/_offsets.py",
        "ahead = k_context.start - q_context.start",
        "ahead = 0",
        "position/test_offsets.py::test_one_line_is_the_same_as_rows_of_it",
    ),
    Mistake(
        "any one line of positions taken for a run",
        "position/_plan.py",
        "return first if torch.equal(positions[0], torch.arange(first, first + positions.shape[1])) else None",
        "return first",
        "position/test_offsets.py::test_what_is_not_consecutive_is_gathered",
    ),
    # plans and tiles, as on a GPU
    Mistake(
        "the gradient of a tile's empty places added to its operator",
        "position/_tiles.py",
        "grad.index_select(0, ctx.stage.take) * ctx.stage.filled.to(grad.dtype)",
        "grad.index_select(0, ctx.stage.take)",
        "position/test_tiles.py::test_tiles_are_the_product_along_the_path",
    ),
    Mistake(
        "vectors without a piece of a path left at another one's operator",
        "position/_branches.py",
        "met = np.zeros_like(heap)",
        "met = np.ones_like(heap)",
        "position/test_tiles.py::test_tiles_are_the_product_along_the_path",
    ),
    Mistake(
        "a plan of the decoder with a table of its own length",
        "position/_branches.py",
        "reach = beside.sizes[0] if beside else self._tiled_reach(heap.size)",
        "reach = self._tiled_reach(heap.size)",
        "position/test_tiles.py::test_a_decoder_takes_its_encoders_table",
    ),
    Mistake(
        "as many tiles as a batch needs, and not as its shape may need",
        "position/_tiles.py",
        "total = which.size // TILE + operators",
        "total = int(tiles.sum())",
        "position/test_tiles.py::test_plans_of_one_shape_have_one_shape",
    ),
    # padding
    Mistake(
        "padded places that are read as tokens",
        "batch.py",
        "mask = np.arange(length) < side.length_of(own)[:, None]",
        "mask = np.arange(length) < np.maximum(side.length_of(own)[:, None], length - 1)",
        "test_padding.py::test_few_lengths_change_nothing",
    ),
    # what layers share
    Mistake(
        "what a pair shares given to another pair",
        "position/__init__.py",
        "key = (make.__qualname__, id(other))",
        "key = make.__name__",
        "position/test_context.py::test_a_pair_s_own",
    ),
    Mistake(
        "two functions of a pair taken for one",
        "position/__init__.py",
        "key = (make.__qualname__, id(other))",
        "key = id(other)",
        "position/test_context.py::test_a_pair_s_own",
    ),
    Mistake(
        "a new context at the place of one that is gone",
        "position/__init__.py",
        "held = None if other is self else other",
        "held = None",
        "position/test_context.py::test_a_second_that_is_gone_is_not_mistaken_for_a_new_one",
    ),
    Mistake(
        "a context that holds itself, and its forward pass",
        "position/__init__.py",
        "held = None if other is self else other",
        "held = other",
        "position/test_context.py::test_nothing_outlives_its_pass",
    ),
    # frames
    Mistake(
        "the frame in the projection of one side only",
        "attention/__init__.py",
        "[(self.key, k_frame), (self.value, None)]",
        "[(self.key, None), (self.value, None)]",
        "position/test_frame.py::test_projections_in_the_frame_change_nothing",
    ),
    Mistake(
        "the frame's transpose in the projections",
        "attention/__init__.py",
        "turn = frame.mT.to(weight.dtype)",
        "turn = frame.to(weight.dtype)",
        "position/test_frame.py::test_projections_in_the_frame_change_nothing",
    ),
    Mistake(
        "the frame without the projections' bias",
        "attention/__init__.py",
        "bias = (turn @ bias.view(self.heads, -1, 1)).flatten()",
        "pass",
        "position/test_frame.py::test_projections_in_the_frame_change_nothing",
    ),
    Mistake(
        "the frame twice: in the projections and in the rotation",
        "attention/__init__.py",
        "act = scheme.turn if link.framed else scheme.rotate",
        "act = scheme.rotate",
        "position/test_frame.py::test_projections_in_the_frame_change_nothing",
    ),
    Mistake(
        "a factor without a frame whose channels are lost",
        "position/_algebra.py",
        "torch.eye(share, dtype=some.dtype, device=some.device)",
        "torch.zeros(share, share, dtype=some.dtype, device=some.device)",
        "position/test_frame.py::test_a_product_s_frame_is_that_of_its_factors",
    ),
    # learned biases
    Mistake(
        "a learned bias beside scores without 1/sqrt(K)",
        "attention/__init__.py",
        "return (q * q.shape[-1] ** -0.5) @ k.mT",
        "return q @ k.mT",
        "attention/test_dot.py::test_a_learned_bias_is_that_of_torch",
    ),
    Mistake(
        "a learned bias that sees padding and what comes later",
        "attention/__init__.py",
        "if link.hidden is not None:",
        "if link.hidden is not None and link.decay is not None:",
        "attention/test_dot.py::test_a_learned_bias_is_that_of_torch",
    ),
    Mistake(
        "a fused bias that sees padding and what comes later",
        "attention/dot.py",
        'mask = bias if link.hidden is None else bias.masked_fill(link.hidden, float("-inf"))',
        "mask = bias",
        "attention/test_dot.py::test_what_is_not_learned_takes_the_fused_path",
    ),
    Mistake(
        "FlexAttention that sees what comes later in a part of the queries",
        "attention/_flex.py",
        "key <= query + first",
        "key <= query",
        "attention/test_backend.py::test_some_of_the_queries_see_what_they_see_among_all",
    ),
    Mistake(
        "FlexAttention that adds the locality bias in place of multiplying by it",
        "attention/_flex.py",
        "score * decay[_at(decay, 0, row), 0, m, n]",
        "score + decay[_at(decay, 0, row), 0, m, n].log()",
        "attention/test_backend.py::test_every_backend_gives_the_same",
    ),
    Mistake(
        "FlexAttention whose softmax counts padding",
        "attention/_flex.py",
        'return torch.where(key < keys, score, -float("inf"))',
        "return score",
        "attention/test_backend.py::test_every_backend_gives_the_same",
    ),
    Mistake(
        "blocks of queries of which each sees as far as the first one",
        "attention/__init__.py",
        "first=self.first + begin",
        "first=0",
        "attention/test_blocks.py::test_in_blocks_as_at_once",
    ),
    Mistake(
        "blocks of queries at the positions of the first one",
        "attention/__init__.py",
        "q_context=self.q_context.part(begin, end)",
        "q_context=self.q_context.part(0, end - begin)",
        "attention/test_blocks.py::test_in_blocks_as_at_once",
    ),
    Mistake(
        "gradients by another dropout than was drawn",
        "attention/_blocks.py",
        "preserve_rng_state=rng",
        "preserve_rng_state=False",
        "attention/test_blocks.py::test_dropout_is_drawn_again_as_it_was",
    ),
    Mistake(
        "memory that is given back all the same",
        "process.py",
        "mallopt(_MMAP_THRESHOLD, 2**30)",
        "mallopt(_MMAP_THRESHOLD, 2**10)",
        "test_process.py::test_memory_is_kept",
    ),
]
