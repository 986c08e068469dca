"""Puts each known mistake into a copy of the code and sees the test that guards against it fail.

Not a test itself (it takes minutes): `make mistakes`. A mistake that no test notices, or whose place in
the code is no longer found, makes it end with 1. The mistakes are those that earlier implementations
of these schemes and tasks made; each trains without complaint and shows only as a wrong number.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Mistake:
    what: str
    file: str  # in ape_cli/
    right: str  # stands there exactly once
    wrong: str
    test: str  # in tests/


MISTAKES = [
    Mistake(
        "rotary pairs along the heads instead of the channels",
        "position/_rotation.py",
        "pairs = torch.view_as_complex(wide.unflatten(-1, (-1, 2)).contiguous())",
        "b, h, n, k = wide.shape\n"
        "    mixed = wide.permute(0, 2, 3, 1).reshape(b, n, h, k).transpose(1, 2)\n"
        "    pairs = torch.view_as_complex(mixed.unflatten(-1, (-1, 2)).contiguous())",
        "position/test_rope.py::test_heads_do_not_mix",
    ),
    Mistake(
        "both sides contracted with the same transpose (sequences)",
        "position/rope.py",
        "turn = turns(context.state, x.dtype)",
        "turn = turns(context.state, x.dtype)\n        turn = turn if side == 'query' else turn.conj()",
        "position/test_contract.py::test_scores_depend_on_the_path_between_alone",
    ),
    Mistake(
        "both sides contracted with the same transpose (trees)",
        "position/orthogonal.py",
        "            return self.operators.turn(x, context.state)",
        "            from dataclasses import replace\n"
        "            state = context.state\n"
        "            if side == 'key' and hasattr(state, 'operators'):\n"
        "                state = replace(state, operators=state.operators.mT)\n"
        "            return self.operators.turn(x, state)",
        "position/test_contract.py::test_scores_depend_on_the_path_between_alone",
    ),
    Mistake(
        "tree paths off by one: SOS at the root's place",
        "position/_branches.py",
        "heap = positions.flatten().clamp(min=1)",
        "heap = positions.flatten() + 1",
        "position/test_orthogonal.py::test_tree_operators_follow_the_path_from_the_root",
    ),
    Mistake(
        "the path composed from the leaf up instead of from the root down",
        "position/_branches.py",
        "levels.append(levels[-1][parent] @ w[self.tree.branch(here)])",
        "levels.append(w[self.tree.branch(here)] @ levels[-1][parent])",
        "position/test_orthogonal.py::test_tree_operators_follow_the_path_from_the_root",
    ),
    Mistake(
        "one set of generators used for all heads",
        "position/_branches.py",
        "return torch.linalg.matrix_exp(skew(self.free))",
        "return torch.linalg.matrix_exp(skew(self.free))[:, :1].expand(-1, self.heads, -1, -1)",
        "position/test_contract.py::test_every_parameter_gets_a_gradient",
    ),
    Mistake(
        "all branches initialised in one basis: left and right commute",
        "position/_branches.py",
        "basis = random_orthogonal((k, heads, channels, channels), generator)",
        "basis = random_orthogonal((1, heads, channels, channels), generator).expand(k, -1, -1, -1)",
        "position/test_orthogonal.py::test_branches_do_not_commute",
    ),
    Mistake(
        "all heads initialised alike",
        "position/_orthogonal.py",
        "return angle.view(pairs, generators, heads).permute(1, 2, 0).contiguous()",
        "return angle.view(pairs, generators, heads)[:, :1, :1].expand(-1, generators, heads).permute(1, 2, 0)",
        "position/test_orthogonal.py::test_generators_are_orthogonal_near_identity_and_distinct",
    ),
    Mistake(
        "half of the initial angles duplicated",
        "position/_orthogonal.py",
        "quantile = (torch.arange(count, dtype=torch.float64) + 0.5) / count",
        "quantile = (torch.arange(count, dtype=torch.float64) // 2 * 2 + 0.5) / count",
        "position/test_orthogonal.py::test_generators_are_orthogonal_near_identity_and_distinct",
    ),
    Mistake(
        "distances that depend on the deepest tree of the batch",
        "structure/_algebras.py",
        "return depth_x + depth_y - 2 * (shallow - apart)",
        "return depth_x + depth_y - 2 * (shallow - apart) + (depth_x.max() - depth_x)",
        "position/test_contract.py::test_neither_batch_nor_padding_matters",
    ),
    Mistake(
        "attention dropout before the softmax, and a mask larger than its penalty",
        "attention/__init__.py",
        "weights = functional.dropout(torch.softmax(scores, dim=-1), dropout)",
        "weights = torch.softmax(functional.dropout(scores.clamp(min=-1e9), dropout), dim=-1)",
        "position/test_contract.py::test_nothing_is_seen_ahead_of_time",
    ),
    Mistake(
        "a positional table built and not used",
        "position/sinusoidal.py",
        "return x + context.state.to(x.dtype)",
        "return x",
        "position/test_contract.py::test_only_no_encoding_is_blind_to_order",
    ),
    Mistake(
        "a positional table broadcast from a single position",
        "position/sinusoidal.py",
        "return x + context.state.to(x.dtype)",
        "return x + context.state[:, :1].to(x.dtype)",
        "position/test_contract.py::test_every_position_counts",
    ),
    Mistake(
        "token embeddings of standard deviation 20 beside vectors of amplitude 1",
        "model.py",
        "std=self.embedding.shape[1] ** -0.5",
        "std=1.0",
        "position/test_contract.py::test_additive_vectors_are_of_the_tokens_size",
    ),
    Mistake(
        "a bias that never reaches cross-attention",
        "position/relative.py",
        "        k = self.shape.max_size\n",
        "        if q_context is not k_context:\n            return q.new_zeros(1)\n        k = self.shape.max_size\n",
        "position/test_contract.py::test_every_scheme_reaches_cross_attention",
    ),
    Mistake(
        "Shaw's term without 1/sqrt(K)",
        "position/relative.py",
        "terms = (q * q.shape[-1] ** -0.5) @",
        "terms = q @",
        "position/test_relative.py::test_against_the_definition",
    ),
    Mistake(
        "Shiv and Quirk's weights in the wrong order across the levels",
        "position/tree.py",
        "* weight[:, :, None]",
        "* weight.flip(1)[:, :, None]",
        "position/test_tree.py::test_weights_fall_with_the_level_and_each_copy_has_its_own",
    ),
    Mistake(
        "Shiv and Quirk's vectors normalised by the wrong width",
        "position/tree.py",
        "(self.tree.branching * self.shape.max_size / 2)",
        "(self.shape.d_model / 2)",
        "position/test_tree.py::test_length_is_about_that_of_the_sinusoidal_vector",
    ),
    Mistake(
        "a rotary cache keyed on length alone",
        "position/rope.py",
        "return positions[:, None, :, None] * one[:, None]",
        "return self.__dict__.setdefault('cache', {}).setdefault(\n"
        "            positions.shape[1], positions[:, None, :, None] * one[:, None]\n"
        "        )",
        "position/test_rope.py::test_the_base_is_followed_at_once",
    ),
    Mistake(
        "halves paired where neighbours are meant",
        "position/rope.py",
        "return rotate_pairs(x, turn) if self.interleaved",
        "return rotate_pairs(x, turn) if not self.interleaved",
        "position/test_rope.py::test_both_pairings_of_other_implementations",
    ),
    Mistake(
        "a ring whose angles are no multiples of a whole turn",
        "position/_powers.py",
        "return (self.multiples.double() * (2 * math.pi / self.order))",
        "return (self.multiples.double() * (2 * math.pi / (self.order + 1)))",
        "position/test_algebra.py::test_a_ring_closes_exactly",
    ),
    Mistake(
        "the factors of a product read one coordinate",
        "position/_algebra.py",
        "[part.prepare(positions[..., i]) for i, part in enumerate(self._each())]",
        "[part.prepare(positions[..., 0]) for part in self._each()]",
        "position/test_algebra.py::test_a_grid_is_a_block_for_each_axis",
    ),
    Mistake(
        "the absolute variant on both sides",
        "position/orthogonal.py",
        'if self.side in ("both", side):',
        "if self.side:",
        "position/test_algebra.py::test_the_absolute_variant_turns_one_side",
    ),
    Mistake(
        "a child of a ternary tree with its binary parent",
        "structure/_algebras.py",
        "return (heap - self.level_start(up)) // self.branching**up + 1",
        "return heap >> up",
        "test_structure.py::test_trees_of_any_branching",
    ),
    Mistake(
        "T5's directions exchanged",
        "position/t5.py",
        "ahead = count * (offset > 0)",
        "ahead = count * (offset < 0)",
        "position/test_t5.py::test_buckets_of_another_implementation",
    ),
    Mistake(
        "T5's decoder with the encoder's buckets",
        "position/t5.py",
        "both_ways=part != _DECODER",
        "both_ways=True",
        "position/test_t5.py::test_scalars_of_the_right_part_head_and_bucket",
    ),
    Mistake(
        "ALiBi's slopes counted from zero",
        "position/alibi.py",
        "torch.arange(1, self.shape.heads + 1, dtype=torch.float64)",
        "torch.arange(self.shape.heads, dtype=torch.float64)",
        "position/test_alibi.py::test_slopes_of_another_implementation",
    ),
    Mistake(
        "Transformer-XL's offset with the wrong sign",
        "position/transformer_xl.py",
        "offset = q_context.positions[:, :, None] - k_context.positions[:, None, :]",
        "offset = k_context.positions[:, None, :] - q_context.positions[:, :, None]",
        "position/test_transformer_xl.py::test_scores_of_another_implementation",
    ),
    Mistake(
        "Transformer-XL without its global content term u k",
        "position/transformer_xl.py",
        'return x + self.u[:, None].to(x.dtype) if side == "query" else x',
        "return x",
        "position/test_transformer_xl.py::test_the_four_terms_by_hand",
    ),
    Mistake(
        "a learned matrix whose basis is not turned back",
        "position/matrix_power.py",
        "return turned @ q.mT",
        "return turned",
        "position/test_matrix_power.py::test_learned_starts_at_the_given_angles",
    ),
    Mistake(
        "a learned table read one row late",
        "position/learned.py",
        "at = context.positions.clamp(max=self.shape.max_size)",
        "at = (context.positions + 1).clamp(max=self.shape.max_size)",
        "position/test_learned.py::test_each_position_has_its_row",
    ),
    Mistake(
        "a cap on depth that clamps silently (positions read)",
        "dataset.py",
        "for factor, coordinate in zip(own.simple, at.reshape(-1, own.width).T, strict=True):",
        "at = np.minimum(at, np.uint64(2**62))\n        for factor, coordinate in ():",
        "test_dataset.py::test_a_path_too_deep_is_an_error",
    ),
    Mistake(
        "a cap on sizes that clamps silently (sizes drawn)",
        "streams.py",
        "good = (value >= low) & (value <= high)",
        "value = np.clip(value, low, high)\n        good = value >= low",
        "test_streams.py::test_the_normal_s_tails_are_cut_not_piled_up",
    ),
    Mistake(
        "a rotation that swaps only the root's children",
        "tasks/tree_rotate.py",
        "trees.mirror(source.position, self.branching)",
        "source.position ^ ((source.position > 1) << (trees.Tree(2).level(source.position) - (source.position > 1)))",
        "tasks/test_tree_rotate.py::test_target_is_rederived",
    ),
    Mistake(
        "a mirror image that only exchanges the root's children, of any branching",
        "trees.py",
        "flipped: I64 = (branching + 1) * start - (branching - 1) - heap",
        "down = np.maximum(tree.level(heap) - 1, 0)\n"
        "    child = tree.branch(tree.ancestor(heap, down))\n"
        "    flipped: I64 = heap + (heap > 1) * (branching - 1 - 2 * child) * branching**down",
        "tasks/test_tree_rotate.py::test_target_is_rederived",
    ),
    Mistake(
        "the deep child of three or more at the first or second place alone",
        "trees.py",
        "place = branching - 1 - ((word & np.uint64(0xFFFFFFFF)) % np.uint64(branching)).astype(np.int64)",
        "place = 1 - (word & np.uint64(1)).astype(np.int64)",
        "tasks/test_tree_copy.py::test_shapes_of_more_branches_follow_the_sampler",
    ),
    Mistake(
        "binarised with the number of earlier siblings off by one",
        "trees.py",
        "binary[on] = ((2 * binary[on] + 1) << child) - 1",
        "binary[on] = ((2 * binary[on] + 1) << (child + 1)) - 1",
        "test_structure.py::test_binarised_is_left_child_right_sibling",
    ),
    Mistake(
        "the last sibling of a binarised tree opens one more",
        "tasks/_trees.py",
        "earlier < self.branching - 1",
        "earlier < self.branching",
        "tasks/test_unfolding.py::test_targets_unfold_in_their_order",
    ),
    Mistake(
        "a subtree that was cut off unfolds",
        "tasks/tree_ops.py",
        "return np.where(op == TRUNCATE, pointer, -1)",
        "return np.full_like(op, -1)",
        "tasks/test_unfolding.py::test_targets_unfold_in_their_order",
    ),
    Mistake(
        "a quarter turn the wrong way",
        "tasks/grid_rotate.py",
        "source.symbol[begin + (h - 1 - j) * w + i]",
        "source.symbol[begin + j * w + (w - 1 - i)]",
        "tasks/test_grids.py::test_target_is_rederived",
    ),
    Mistake(
        "row and column exchanged",
        "tasks/_grids.py",
        "np.stack([row, column], axis=1)",
        "np.stack([column, row], axis=1)",
        "tasks/test_grids.py::test_target_is_rederived",
    ),
    Mistake(
        "a ring shifted backwards",
        "tasks/ring_shift.py",
        "before = (np.arange(n) - offset) % n",
        "before = (np.arange(n) + offset) % n",
        "tasks/test_ring_shift.py::test_target_is_rederived",
    ),
    Mistake(
        "EOS on grids and rings",
        "batch.py",
        "if reading.own == Seq():",
        "if not any(isinstance(s, Tree) for s in reading.own.simple):",
        "test_dataset.py::test_grids_and_rings_carry_no_eos",
    ),
    Mistake(
        "the first row and column read as SOS's own place",
        "batch.py",
        "coordinates[..., c] + first",
        "coordinates[..., c]",
        "test_dataset.py::test_positions_as_any_structure_that_the_data_has",
    ),
    Mistake(
        "a fingerprint of the first coordinates alone",
        "streams.py",
        "for coordinate in position.T:",
        "for coordinate in position.T[:1]:",
        "test_gen.py::test_fingerprint_sees_every_coordinate",
    ),
    Mistake(
        "an option younger than some datasets makes theirs another plan",
        "tasks/__init__.py",
        "if k not in late or v != late[k]",
        "if k not in late or v is not None",
        "tasks/test_contract.py::test_rows_of_datasets_that_exist_stay_what_they_are",
    ),
    Mistake(
        "an operator symbol that is also one of the task's four operators",
        "tasks/tree_ops.py",
        "FIRST_SYMBOL + self.leaves + self.operators + op",
        "FIRST_SYMBOL + self.leaves + self.operators + op - 4",
        "tasks/test_tree_ops.py::test_target_is_rederived",
    ),
    Mistake(
        "the sampled normal truncated instead of rounded",
        "streams.py",
        "np.floor(mean + std * z + 0.5)",
        "np.floor(mean + std * z)",
        "tasks/test_words.py::test_lengths_are_rounded_not_truncated",
    ),
    Mistake(
        "EOS in the source and not in the target",
        "batch.py",
        "source, target = _close(source, source_mask), _close(target, target_mask)",
        "source = _close(source, source_mask)",
        "test_dataset.py::test_words_carry_eos_in_source_and_target",
    ),
    Mistake(
        "one id for PAD and EOS",
        "schema.py",
        "PAD, SOS, EOS, FIRST_SYMBOL = 0, 1, 2, 3",
        "PAD, SOS, EOS, FIRST_SYMBOL = 0, 1, 0, 3",
        "tasks/test_contract.py::test_ids_are_named",
    ),
    Mistake(
        "the stream of a row is seed + index",
        "streams.py",
        "return bits(root, index)",
        "return mix(np.array([seed], dtype=np.uint64) + np.asarray(index).astype(np.uint64))",
        "tasks/test_contract.py::test_seeds_and_splits_share_nothing",
    ),
    Mistake(
        "depth-first targets against breadth-first sources",
        "tasks/__init__.py",
        "order = linearise(ragged.rows_of(tokens.starts), tokens.position, self.order, tree.branching)",
        "order = linearise(ragged.rows_of(tokens.starts), tokens.position, self.order "
        "if isinstance(tokens, Source) else 'depth', tree.branching)",
        "tasks/test_tree_copy.py::test_target_is_rederived",
    ),
    Mistake(
        "the mask of the inputs applied to the targets",
        "batch.py",
        "return self.labels != PAD",
        "return self.input_ids != PAD",
        "test_dataset.py::test_masks_are_of_what_they_mask",
    ),
    Mistake(
        "batch means averaged without weights",
        "score.py",
        "return float(sum(c.sum() for c in self.correct) / max(1, sum(t.sum() for t in self.tokens)))",
        "return float(np.mean([c.sum() / t.sum() for c, t in zip(self.correct, self.tokens)]))",
        "test_train.py::test_accuracy_is_a_ratio_of_two_sums",
    ),
    Mistake(
        "the best checkpoint chosen on the test set",
        "train.py",
        'data.split("train"), data.split("validation")',
        'data.split("train"), data.split("test")',
        "test_train.py::test_best_by_validation_and_the_test_split_is_never_read",
    ),
    Mistake(
        "a warm-up of 1.25%",
        "config.py",
        "warmup: float = Field(0.05,",
        "warmup: float = Field(0.0125,",
        "test_train.py::test_learning_rate_of_the_paper",
    ),
    Mistake(
        "the locality bias given to one scheme only",
        "position/__init__.py",
        "if self.shape.decay == 1.0:",
        "if self.shape.decay == 1.0 or self.default_decay == 1.0:",
        "position/test_contract.py::test_locality_bias_is_for_all",
    ),
    Mistake(
        "a schedule that is created and never stepped",
        "train.py",
        'group["lr"] = learning_rate(at.step, self.steps, self.config)',
        "_ = learning_rate(at.step, self.steps, self.config), group",
        "test_train.py::test_the_optimiser_follows_the_schedule",
    ),
    Mistake(
        "results that depend on the batch size at evaluation",
        "score.py",
        "self.nats.append((nats.double() * mask).sum(1).cpu().numpy())",
        "self.nats.append((nats.double() * mask).mean(1).cpu().numpy())",
        "test_train.py::test_scores_do_not_depend_on_the_batch_size",
    ),
    Mistake(
        "the best weights' evaluation with dropout on",
        "score.py",
        "    model.eval()\n",
        "",
        "test_train.py::test_scores_do_not_depend_on_the_batch_size",
    ),
    Mistake(
        "dropout's stream not restored on resume",
        "train.py",
        'torch.set_rng_state(tensors["rng.cpu"])',
        "pass",
        "test_train.py::test_a_stopped_run_ends_as_if_it_had_not_stopped",
    ),
    Mistake(
        "the locality bias missing from cross-attention",
        "model.py",
        "link, cross = Link.of(self.scheme, context, context), Link.of(self.scheme, context, source)",
        "link = Link.of(self.scheme, context, context)\n"
        "        cross = Link(**vars(Link.of(self.scheme, context, source)) | {'decay': None})",
        "test_reference.py::test_the_model_is_the_plain_one",
    ),
    Mistake(
        "the locality bias missing from the encoder",
        "model.py",
        "        link = Link.of(self.scheme, context, context)\n        for",
        "        link = Link(**vars(Link.of(self.scheme, context, context)) | {'decay': None})\n        for",
        "test_reference.py::test_the_model_is_the_plain_one",
    ),
    Mistake(
        "positions off by one in greedy decoding",
        "decode.py",
        "pen.next(written, batch.input_positions[:, :m])",
        "pen.next(written, batch.input_positions[:, :m] + 1)",
        "test_reference.py::test_greedy_writes_what_a_loop_by_hand_writes",
    ),
    Mistake(
        "attention dropout never on",
        "attention/__init__.py",
        "drop = self.dropout if self.training else 0.0",
        "drop = 0.0",
        "test_reference.py::test_dropout_is_at_work_in_training_alone",
    ),
    Mistake(
        "a split's sources not kept apart",
        "tasks/__init__.py",
        "mine = (_split_of(part) == split)",
        "mine = np.ones(part.size.size, dtype=bool)",
        "tasks/test_contract.py::test_small_spaces_stay_apart_too",
    ),
    Mistake(
        "linear attention's denominator rotated",
        "attention/linear.py",
        "turned_q @ (turned_k.mT @ values), plain_k.sum(-2, keepdim=True)",
        "turned_q @ (turned_k.mT @ values), turned_k.sum(-2, keepdim=True)",
        "attention/test_linear.py::test_the_denominator_is_not_rotated",
    ),
    Mistake(
        "a query that does not see its own place (causal linear attention)",
        "attention/linear.py",
        "(some_q @ some_k.mT).tril() @ some_v",
        "(some_q @ some_k.mT).tril(-1) @ some_v",
        "attention/test_linear.py::test_chunks_are_the_quadratic_form",
    ),
    Mistake(
        "the mask of a chunk left out: linear attention that looks ahead",
        "attention/linear.py",
        "(some_q @ some_k.mT).tril() @ some_v",
        "(some_q @ some_k.mT) @ some_v",
        "attention/test_contract.py::test_nothing_is_seen_ahead_of_time",
    ),
    Mistake(
        "padding summed up in linear attention",
        "attention/linear.py",
        "plain_k = plain_k * link.keys[:, None, :, None]",
        "pass",
        "attention/test_contract.py::test_neither_batch_nor_padding_matters",
    ),
    Mistake(
        "padding seen by a kernel that no softmax masks",
        "attention/softmax_free.py",
        "weights = weights.masked_fill(~link.mask, 0.0)",
        "pass",
        "attention/test_contract.py::test_nothing_is_seen_ahead_of_time",
    ),
    Mistake(
        "a softmax in softmax-free attention",
        "attention/softmax_free.py",
        "q.shape[-1] ** 0.25)).exp()",
        "q.shape[-1] ** 0.25)).softmax(-1)",
        "attention/test_contract.py::test_against_the_definition",
    ),
    Mistake(
        "padding clustered with the queries",
        "attention/clustered.py",
        "real = real * link.queries[:, None, :, None]",
        "pass",
        "attention/test_clustered.py::test_padding_is_in_no_cluster",
    ),
    Mistake(
        "a centroid that no member's gradient reaches",
        "attention/clustered.py",
        "centroids = means(queries, real, member, count)[0]",
        "centroids = means(queries.detach(), real, member, count)[0]",
        "attention/test_contract.py::test_every_parameter_gets_a_gradient",
    ),
    Mistake(
        "a decoder whose queries mix",
        "model.py",
        "behind = attention.make() if kind.mixes_queries else kind",
        "behind = kind",
        "attention/test_contract.py::test_nothing_is_seen_ahead_of_time",
    ),
    Mistake(
        "distances from squares, which cancel",
        "attention/_kernels.py",
        'compute_mode="donot_use_mm_for_euclid_dist"',
        'compute_mode="use_mm_for_euclid_dist"',
        "attention/test_kernels.py::test_distances_keep_their_digits_in_float32",
    ),
    Mistake(
        "a square root whose gradient at 0 is no number",
        "attention/_kernels.py",
        'return torch.cdist(wide(q), wide(k), compute_mode="donot_use_mm_for_euclid_dist")',
        "return (wide(q)[..., :, None, :] - wide(k)[..., None, :, :]).square().sum(-1).sqrt()",
        "attention/test_kernels.py::test_the_gradient_at_distance_0_is_a_number",
    ),
    Mistake(
        "the squared kernel in units of sqrt(K)",
        "attention/squared_euclidean.py",
        "return channels**0.25",
        "return channels**0.5",
        "attention/test_kernels.py::test_squared_euclidean_is_the_dot_product_up_to_key_norms",
    ),
    Mistake(
        "a support that no distance reaches",
        "attention/epanechnikov.py",
        "return 2.0 * channels**0.5",
        "return 1.0",
        "attention/test_kernels.py::test_scores_are_alive_at_initialisation",
    ),
    Mistake(
        "a locality bias on scores that are never positive",
        "attention/euclidean.py",
        'refuses_decay = "its scores are never positive, and scaled towards zero they would favour distant keys"',
        'refuses_decay = ""',
        "attention/test_choice.py::test_what_makes_no_sense_is_refused",
    ),
    Mistake(
        "a term of the dot product added to other scores",
        "position/relative.py",
        "dot_only = True",
        "dot_only = False",
        "attention/test_choice.py::test_what_makes_no_sense_is_refused",
    ),
    Mistake(
        "earlier runs renamed by a late field",
        "config.py",
        "exclude=set(without) | plain",
        "exclude=set(without)",
        "attention/test_choice.py::test_earlier_configurations_keep_their_digest",
    ),
    Mistake(
        "every run in the table under `dot`",
        "report.py",
        '"attention": checked.attention',
        '"attention": "dot"',
        "attention/test_choice.py::test_tables_tell_kinds_apart",
    ),
]


def noticed(mistake: Mistake, copy: Path) -> str:
    """`noticed`, or what is wrong."""
    path = copy / "ape_cli" / mistake.file
    text = path.read_text()
    if text.count(mistake.right) != 1:
        return f"its place stands {text.count(mistake.right)} times in {mistake.file}"
    path.write_text(text.replace(mistake.right, mistake.wrong))
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", f"tests/{mistake.test}"]
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    path.write_text(text)
    if done.returncode == 1:
        return "noticed"
    return "NOT NOTICED" if done.returncode == 0 else f"the test did not run:\n{done.stdout[-800:]}{done.stderr[-400:]}"


def main() -> None:
    wanted = sys.argv[1:]
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        skip = shutil.ignore_patterns(".git", ".venv", ".demo", "__pycache__", "results", "datasets")
        shutil.copytree(ROOT, copy, ignore=skip)
        for number, mistake in enumerate(MISTAKES, 1):
            if wanted and str(number) not in wanted:
                continue
            found = noticed(mistake, copy)
            missed += found != "noticed"
            print(f"{number:2} {mistake.what}: {found}", flush=True)
    print(f"{missed} not noticed" if missed else "every mistake is noticed")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
