"""Mistakes in grids: their axes and their distances."""

from __future__ import annotations

from tests.mistakes._mistake import Mistake

MISTAKES = [
    Mistake(
        "a table of grids with columns before rows",
        "Sinusoidal.prepare",
        "sinusoids(each, self.shape.d_model // axes)",
        "sinusoids(each.flip(-1), self.shape.d_model // axes)",
        "position/test_sinusoidal.py::test_a_grid_by_hand",
    ),
    Mistake(
        "a table of grids whose axes all have the row's",
        "Sinusoidal.prepare",
        "sinusoids(each, self.shape.d_model // axes)",
        "sinusoids(each[..., :1].expand_as(each), self.shape.d_model // axes)",
        "position/test_sinusoidal.py::test_a_grid_by_hand",
    ),
    Mistake(
        "a table of grids with the frequencies of the whole width",
        "Sinusoidal.prepare",
        "sinusoids(each, self.shape.d_model // axes)",
        "sinusoids(each, self.shape.d_model)[..., : self.shape.d_model // axes]",
        "position/test_sinusoidal.py::test_a_grid_by_hand",
    ),
    Mistake(
        "a flat baseline that sees rows and columns by default",
        "reading",
        "[line] if found.flat else [own, line, *factors_of(own)]",
        "[own, line, *factors_of(own)]",
        "models/test_factory.py::test_a_run_keeps_its_name_unless_a_structure_is_asked_for",
    ),
    Mistake(
        "a Euclidean distance without the square root",
        "Grid.straight",
        "return sum((1.0 * steps) ** 2 for steps in apart) ** 0.5",
        "return sum((1.0 * steps) ** 2 for steps in apart)",
        "position/test_orthogonal_grid.py::test_distances_by_hand",
    ),
    Mistake(
        "Euclidean distances in units of the largest grid of the batch",
        "OrthogonalGrid.apart",
        "return self.structure.straight(x, y).double()",
        "return self.structure.straight(x, y).double() * 4 / y.amax().clamp(min=4)",
        "position/test_orthogonal_grid.py::test_neither_the_batch_nor_padding_moves_a_pair",
    ),
    Mistake(
        "a distance that only the encoder's self-attention uses",
        "OrthogonalGrid.apart",
        'self.metric == "path"',
        'self.metric == "path" or x.flatten(1, 2).shape != y.flatten(1, 2).shape',
        "models/test_reference.py::test_the_model_is_the_plain_one",
    ),
    Mistake(
        "a distance that has no effect, accepted",
        "OrthogonalGrid.__init__",
        "shape.decay == 1.0",
        "shape.decay == 0.0",
        "position/test_orthogonal_grid.py::test_what_makes_no_sense_is_refused",
    ),
]
