"""Mistakes in composite structures: what is read of a product, forests, boxes, grids of words and quadtrees."""

from __future__ import annotations

from tests.mistakes._mistake import Mistake

MISTAKES = [
    Mistake(
        "a bounded scheme whose size is that of another factor",
        "_check_bound",
        "needed and read == Seq() and left_out(read, data.structure)",
        "False",
        "models/test_factory.py::test_bounded_schemes_get_the_size_of_what_they_read",
    ),
    Mistake(
        "a run that is evaluated on other answers",
        "_answers",
        "found.answer_options",
        "found.answer_options[:0]",
        "evaluation/test_evaluate.py::test_a_dataset_with_other_answers_is_refused",
    ),
    Mistake(
        "the mean number of tokens taken at the mean size",
        "Sized.expected",
        "float(sum(chance * value(size) for size, chance in enumerate(chances.tolist(), first) if chance))",
        "float(value(round(mean)))",
        "tasks/test_contract.py::test_mean_tokens_is_the_mean_at_the_presets",
    ),
    Mistake(
        "a factor of a product that is read from the line",
        "columns",
        "match is not None",
        "match is not None and not isinstance(factor, Seq)",
        "structure/test_structure.py::test_what_a_structure_is_read_from",
    ),
    Mistake(
        "a factor of a product that is read twice",
        "columns",
        "unread.remove(match)",
        "pass",
        "structure/test_structure.py::test_what_a_structure_is_read_from",
    ),
    Mistake(
        "a flat baseline that reads one factor of a product by default",
        "reading",
        "line = LinePlace() if own != Seq() and Seq() in factors_of(own) else Seq()",
        "line = Seq()",
        "models/test_factory.py::test_a_scheme_reads_a_product_or_a_factor_of_it",
    ),
    Mistake(
        "a scheme for trees whose bound is the number of tokens of a forest",
        "settle",
        "mean = tokens if on_line else own",
        "mean = own if read == data.structure else tokens",
        "models/test_factory.py::test_bounded_schemes_get_the_size_of_what_they_read",
    ),
    Mistake(
        "a forest whose trees are not in the order of the dataset",
        "Forests._linear",
        "number = row * (int(tree.max(initial=0)) + 1) + tree",
        "number = row",
        "tasks/test_forests.py::test_target_is_rederived",
    ),
    Mistake(
        "a forest in reverse order whose places are those of the source",
        "ForestReverse.answer",
        "np.stack([moved, heap], axis=1)",
        "np.stack([tree, heap], axis=1)",
        "tasks/test_forests.py::test_target_is_rederived",
    ),
    Mistake(
        "a forest whose trees all have one depth",
        "Forests.draw",
        "each = super().draw(rng.bits(np.repeat(rng.child(key, 'trees'), count), place))",
        "each = super().draw(rng.bits(np.repeat(rng.child(key, 'trees'), count), place * 0))",
        "tasks/test_forests.py::test_the_number_of_trees_and_their_depths_are_drawn",
    ),
    Mistake(
        "a box that is turned the other way",
        "BoxRotate.answer",
        "b, c = ((a + 1) % 3, (a + 2) % 3)",
        "c, b = ((a + 1) % 3, (a + 2) % 3)",
        "tasks/test_box_rotate.py::test_target_is_rederived",
    ),
    Mistake(
        "a turned box that keeps its sides",
        "BoxRotate.answer",
        "turned[every, b], turned[every, c] = (sides[every, c], sides[every, b])",
        "pass",
        "tasks/test_box_rotate.py::test_target_is_rederived",
    ),
    Mistake(
        "a grid of words whose words are reversed",
        "WordGridRotate.answer",
        "source.symbol[place]",
        "source.symbol[place][::-1]",
        "tasks/test_word_grid_rotate.py::test_target_is_rederived",
    ),
    Mistake(
        "a quadtree whose quarters are read column by column",
        "_squares",
        "top |= (quarter >> 1) << step\nleft |= (quarter & 1) << step",
        "left |= (quarter >> 1) << step\ntop |= (quarter & 1) << step",
        "tasks/test_quadtree_expand.py::test_target_is_rederived",
    ),
    Mistake(
        "a leaf of a quadtree that is not stretched",
        "QuadtreeExpand.answer",
        "scale = 1 << source.size[row] - level",
        "scale = 1 << source.size[row] * 0",
        "tasks/test_quadtree_expand.py::test_target_is_rederived",
    ),
]
