"""Mistakes in tasks, trees, generation and batches."""

from __future__ import annotations

from tests.mistakes._mistake import Mistake

MISTAKES = [
    Mistake(
        "a source linearised in the order of its target",
        "Task.sample_counted",
        "line = self._linear(source, self.source_order or self.order)",
        "line = self._linear(source, self.order)",
        "tasks/test_tree_copy.py::test_target_is_rederived",
    ),
    Mistake(
        "a target linearised in the order of its source",
        "Task.sample_counted",
        "target = self._linear(self.store(self.answer(source)), self.order)",
        "target = self._linear(self.store(self.answer(source)), self.source_order or self.order)",
        "tasks/test_tree_copy.py::test_target_is_rederived",
    ),
    Mistake(
        "a tree that unfolds in the order of its source",
        "_Growth.__init__",
        'self.task, self.first_in_first_out = task, task.order == "breadth"',
        'self.task, self.first_in_first_out = task, (task.source_order or task.order) == "breadth"',
        "evaluation/test_decoding.py::test_places_follow_from_the_symbols",
    ),
    Mistake(
        "a run evaluated on sources in an order that it was not trained on",
        "misfit",
        '(own["task"], own["order"]) != (plan.task, plan.linearisation)',
        '(own["task"], (own["order"] or "").split("-")[-1]) != (plan.task, plan.order or "")',
        "structure/test_linearisation.py::test_runs_are_not_asked_about_another_linearisation",
    ),
    Mistake(
        "a cap on depth that clamps silently (positions read)",
        "check_rows",
        """
        for factor, coordinate in zip(own.simple, at.reshape(-1, own.width).T, strict=True):
            low, high = _range(factor)
            least, greatest = (int(coordinate.min()), int(coordinate.max())) if coordinate.size else (low, low)
            if least < low or greatest > high:
                deep = " (a path too deep for a heap index?)" if isinstance(factor, Tree) else ""
                raise DataError(
                    f"a {side} position is not one of {factor.expression}{deep}",
                    got=greatest if greatest > high else least,
                    allowed=f"{low} to {high}",
                    fix=_AGAIN,
                )
        """,
        """
        at = np.minimum(at, np.uint64(2**62))
        for factor, coordinate in ():
            low, high = _range(factor)
            least, greatest = (int(coordinate.min()), int(coordinate.max())) if coordinate.size else (low, low)
            if least < low or greatest > high:
                deep = " (a path too deep for a heap index?)" if isinstance(factor, Tree) else ""
                raise DataError(
                    f"a {side} position is not one of {factor.expression}{deep}",
                    got=greatest if greatest > high else least,
                    allowed=f"{low} to {high}",
                    fix=_AGAIN,
                )
        """,
        "data/test_loader.py::test_a_path_too_deep_is_an_error",
    ),
    Mistake(
        "a cap on sizes that clamps silently (sizes drawn)",
        "normal",
        "good = (value >= low) & (value <= high)",
        """
        value = np.clip(value, low, high)
        good = value >= low
        """,
        "core/test_rng.py::test_the_normal_s_tails_are_cut_not_piled_up",
    ),
    Mistake(
        "a rotation that swaps only the root's children",
        "TreeRotate.answer",
        "trees.mirror(source.position, self.branching)",
        "source.position ^ ((source.position > 1) << (trees.Tree(2).level(source.position) - (source.position > 1)))",
        "tasks/test_tree_rotate.py::test_target_is_rederived",
    ),
    Mistake(
        "a mirror image that only exchanges the root's children, of any branching",
        "mirror",
        "flipped: I64 = (branching + 1) * start - (branching - 1) - heap",
        """
        down = np.maximum(tree.level(heap) - 1, 0)
        child = tree.branch(tree.ancestor(heap, down))
        flipped: I64 = heap + (heap > 1) * (branching - 1 - 2 * child) * branching**down
        """,
        "tasks/test_tree_rotate.py::test_target_is_rederived",
    ),
    Mistake(
        "of three or more children, only the first or second can be the deep one",
        "_depths_below",
        "place = branching - 1 - ((word & np.uint64(0xFFFFFFFF)) % np.uint64(branching)).astype(np.int64)",
        "place = 1 - (word & np.uint64(1)).astype(np.int64)",
        "tasks/test_tree_copy.py::test_shapes_of_more_branches_follow_the_sampler",
    ),
    Mistake(
        "binarised with the number of earlier siblings off by one",
        "binarise",
        "binary[on] = ((2 * binary[on] + 1) << child) - 1",
        "binary[on] = ((2 * binary[on] + 1) << (child + 1)) - 1",
        "structure/test_structure.py::test_binarised_is_left_child_right_sibling",
    ),
    Mistake(
        "the last sibling of a binarised tree gets a further sibling",
        "Trees.opens",
        "earlier < self.branching - 1",
        "earlier < self.branching",
        "tasks/test_unfolding.py::test_targets_unfold_in_their_order",
    ),
    Mistake(
        "a truncated subtree that gets children",
        "TreeOps.closing",
        "return np.where(op == TRUNCATE, pointer, -1)",
        "return np.full_like(op, -1)",
        "tasks/test_unfolding.py::test_targets_unfold_in_their_order",
    ),
    Mistake(
        "a quarter turn the wrong way",
        "clockwise",
        "begin + (h - 1 - j) * w + i",
        "begin + j * w + (w - 1 - i)",
        "tasks/test_grids.py::test_target_is_rederived",
    ),
    Mistake(
        "row and column exchanged",
        "cells",
        "np.stack(coordinates[::-1], axis=1)",
        "np.stack(coordinates, axis=1)",
        "tasks/test_grids.py::test_target_is_rederived",
    ),
    Mistake(
        "a ring shifted backwards",
        "RingShift.answer",
        "before = (np.arange(n) - offset) % n",
        "before = (np.arange(n) + offset) % n",
        "tasks/test_ring_shift.py::test_target_is_rederived",
    ),
    Mistake(
        "EOS on grids and rings",
        "collate",
        "closed = reading.own == Seq()",
        "closed = not any(isinstance(s, Tree) for s in reading.own.simple)",
        "data/test_loader.py::test_grids_and_rings_carry_no_eos",
    ),
    Mistake(
        "the first row and column get the position of SOS",
        "Reading.places",
        "coordinates[..., c] + first",
        "coordinates[..., c]",
        "data/test_loader.py::test_positions_as_any_structure_that_the_data_has",
    ),
    Mistake(
        "a fingerprint of only the first coordinate",
        "fold",
        """
        for coordinate in position.T:
            word = _mixed(word + coordinate.astype(np.uint64) + _GAMMA)
        """,
        """
        for coordinate in position.T[:1]:
            word = _mixed(word + coordinate.astype(np.uint64) + _GAMMA)
        """,
        "data/test_generation.py::test_fingerprint_sees_every_coordinate",
    ),
    Mistake(
        "a new option of a task changes the plan of existing datasets",
        "BaseTask.parameters",
        "v != late[k]",
        "v is not None",
        "tasks/test_contract.py::test_rows_of_datasets_that_exist_stay_what_they_are",
    ),
    Mistake(
        "an operator symbol that is also one of the task's four operators",
        "TreeOps.draw",
        "FIRST_SYMBOL + self.leaves + self.operators + op",
        "FIRST_SYMBOL + self.leaves + self.operators + op - 4",
        "tasks/test_tree_ops.py::test_target_is_rederived",
    ),
    Mistake(
        "the sampled normal truncated instead of rounded",
        "normal",
        "np.floor(mean + std * z + 0.5)",
        "np.floor(mean + std * z)",
        "tasks/test_words.py::test_lengths_are_rounded_not_truncated",
    ),
    Mistake(
        "EOS in the source and not in the target",
        "collate",
        "source, target = _close(source, source_mask), _close(target, target_mask)",
        "source = _close(source, source_mask)",
        "data/test_loader.py::test_words_carry_eos_in_source_and_target",
    ),
    Mistake(
        "one id for PAD and EOS",
        "EOS",
        "PAD, SOS, EOS, FIRST_SYMBOL = 0, 1, 2, 3",
        "PAD, SOS, EOS, FIRST_SYMBOL = 0, 1, 0, 3",
        "tasks/test_contract.py::test_ids_are_named",
    ),
    Mistake(
        "the stream of a row is seed + index",
        "rows",
        "return bits(root, index)",
        "return mix(np.array([seed], dtype=np.uint64) + np.asarray(index).astype(np.uint64))",
        "tasks/test_contract.py::test_seeds_and_splits_share_nothing",
    ),
    Mistake(
        "sources that are always breadth-first, whatever order is given",
        "Task.sample_counted",
        "line = self._linear(source, self.source_order or self.order)",
        'line = self._linear(source, "breadth" if self.order else None)',
        "tasks/test_tree_copy.py::test_target_is_rederived",
    ),
    Mistake(
        "the mask of the inputs applied to the targets",
        "Labelled.label_mask",
        "return self.labels != self.blank",
        "return self.input_ids != self.blank",
        "data/test_loader.py::test_masks_are_of_what_they_mask",
    ),
    Mistake(
        "rows assumed to be in level order because the last one is",
        "in_level_order",
        "return bool(rising.all())",
        "return bool(rising[-1:].all())",
        "tasks/test_tree_rotate.py::test_target_is_rederived",
    ),
    Mistake(
        "an empty row hashed as the first pair of the next",
        "_sums",
        "filled = np.flatnonzero(starts[1:] > starts[:-1])",
        "filled = np.flatnonzero(starts[1:] >= starts[:-1])",
        "core/test_rng.py::test_content_of_empty_rows_and_of_long_arrays",
    ),
    Mistake(
        "a redraw that changes the size",
        "Sized.settle",
        "source, lent = part.settle(index[own], split, seed)",
        """
        source, lent = part.settle(index[own], split, seed)
        from ape_cli import streams
        from ape_cli.tasks._task import _split_of
        stream = rng.child(rng.rows(seed, split, index[own]), 'draws')
        first = _split_of(part.draw(rng.bits(stream, np.array(0)))) == split
        other = self.parts[number - 1].settle(index[own], split, seed)[0]
        source = join([source, other]).take(np.arange(own.size) + own.size * ~first)
        """,
        "tasks/test_sized.py::test_a_draw_that_belongs_to_another_split_keeps_its_size",
    ),
    Mistake(
        "rows of several sizes in the order of their sizes",
        "Sized.settle",
        "join(sources).take(np.argsort(np.concatenate(members)))",
        "join(sources)",
        "tasks/test_sized.py::test_words_have_the_sizes_in_turn",
    ),
    Mistake(
        "splits that share sources",
        "Task.settle",
        "_split_of(self.identity(part)) == split",
        "np.ones(part.size.size, dtype=bool)",
        "tasks/test_contract.py::test_small_spaces_stay_apart_too",
    ),
]
