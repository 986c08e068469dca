"""Mistakes in trees: their structure, the tasks on them, and users' own trees."""

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
        "a run evaluated on sources in an order that it was not trained on",
        "misfit",
        '[[plan.task, plan.linearisation or ""], [trained.task, trained.order or ""]]',
        '[[plan.task, plan.order or ""], [trained.task, (trained.order or "").split("-")[-1]]]',
        "structure/test_linearisation.py::test_runs_are_not_asked_about_another_linearisation",
    ),
    Mistake(
        "a rotation that swaps only the root's children",
        "TreeRotate.answer",
        'trees.mirror if self.mirror == "all" else trees.reverse_root',
        "trees.reverse_root",
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
        "an operator symbol that is also one of the task's four operators",
        "TreeOps.draw",
        "FIRST_SYMBOL + self.leaves + self.operators + op",
        "FIRST_SYMBOL + self.leaves + self.operators + op - 4",
        "tasks/test_tree_ops.py::test_target_is_rederived",
    ),
    Mistake(
        "a factor of a product that is read from the line",
        "columns",
        "match is not None",
        "match is not None and not isinstance(factor, Seq)",
        "structure/test_structure.py::test_what_a_structure_is_read_from",
    ),
    Mistake(
        "a forest whose trees are not in the order of the dataset",
        "ForestRotate._linear",
        "number = row * (int(tree.max(initial=0)) + 1) + tree",
        "number = row",
        "tasks/test_forests.py::test_target_is_rederived",
    ),
    Mistake(
        "a quadtree whose quarters are read column by column",
        "_squares",
        "top |= (quarter >> 1) << step\nleft |= (quarter & 1) << step",
        "left |= (quarter >> 1) << step\ntop |= (quarter & 1) << step",
        "tasks/test_quadtree_expand.py::test_target_is_rederived",
    ),
    Mistake(
        "paths that count the branches from the other side",
        "TreeQuery._addresses",
        "self._first_operator + 5 + branch",
        "self._first_operator + 4 + k - branch",
        "tasks/test_tree_query.py::test_target_is_rederived",
    ),
    Mistake(
        "a common ancestor that is not the lowest",
        "TreeQuery._question",
        "(branch + 1 + rng.below(word[two, 2], k - 1)) % k",
        "branch",
        "tasks/test_tree_query.py::test_target_is_rederived",
    ),
    Mistake(
        "the subtree in place of the label of its root",
        "TreeQuery.answer",
        "(heap == top) | (source.op == SUBTREE)[row]",
        "(heap == top) | (source.op <= NODE)[row]",
        "tasks/test_tree_query.py::test_target_is_rederived",
    ),
    Mistake(
        "post-order as the reverse of pre-order",
        "_postfix",
        "trees.mirror(heap, branching)",
        "heap",
        "tasks/test_tree_convert.py::test_notations_by_hand",
    ),
    Mistake(
        "brackets that close before they open",
        "TreeConvert.store",
        "names, names + 1",
        "names + 1, names",
        "tasks/test_tree_convert.py::test_target_is_rederived",
    ),
    Mistake(
        "equal trees of a source in two splits",
        "together",
        "np.array([home[d] for d in digests])",
        "division",
        "tasks/test_trees.py::test_equal_trees_are_in_one_split_and_near_copies_with_their_document",
    ),
    Mistake(
        "the vocabulary of a source counted over documents that are held out",
        "corpus",
        'division == SPLITS.index("train")',
        "division >= 0",
        "tasks/test_trees.py::test_labels_are_counted_in_training_documents_only",
    ),
    Mistake(
        "the children of a mirrored tree of a source not reversed",
        "RankedTrees.mirrored",
        "self.children[self.above] - 1 - self.rank",
        "self.rank",
        "structure/test_ranked_trees.py::test_mirror_reverses_the_children_that_are_there",
    ),
    Mistake(
        "masks that hide the root and unknown labels too",
        "maskable",
        "below if anonymous else below & (label != 0)",
        "np.ones_like(below)",
        "tasks/test_trees.py::test_unknown_labels_are_never_hidden",
    ),
    Mistake(
        "the path of a query counted from the node up to the root",
        "_query",
        "tree.ancestor(whole.position[node][of], steps[of] - 1 - step)",
        "tree.ancestor(whole.position[node][of], step)",
        "tasks/test_trees.py::test_queries_are_rederived",
    ),
    Mistake(
        "a queried subtree that takes the later siblings of its root along",
        "RankedTrees.subtrees",
        "starts = ragged.starts_of(self.size[roots])",
        "starts = ragged.starts_of(np.minimum(self.size[roots] + 1, self.starts[1:] - roots))",
        "structure/test_ranked_trees.py::test_subtrees",
    ),
    Mistake(
        "anonymous names equal in all trees",
        "TreePortion.symbols",
        "rng.child(self.stream[rows], 'names')[:, None]",
        "rng.child(self.stream[rows * 0], 'names')[:, None]",
        "tasks/test_trees.py::test_anonymous_labels_keep_only_which_labels_are_equal",
    ),
]
