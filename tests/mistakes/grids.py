"""Mistakes on grids: their axes, and distances across them."""

from __future__ import annotations

from tests.mistakes._mistake import Mistake

MISTAKES = [
    Mistake(
        "a table of grids with columns before rows",
        "position/sinusoidal.py",
        "return sinusoids(each, self.shape.d_model // axes)",
        "return sinusoids(each.flip(-1), self.shape.d_model // axes)",
        "position/test_sinusoidal.py::test_a_grid_by_hand",
    ),
    Mistake(
        "a table of grids whose axes all have the row's",
        "position/sinusoidal.py",
        "return sinusoids(each, self.shape.d_model // axes)",
        "return sinusoids(each[..., :1].expand_as(each), self.shape.d_model // axes)",
        "position/test_sinusoidal.py::test_a_grid_by_hand",
    ),
    Mistake(
        "a table of grids with the frequencies of the whole width",
        "position/sinusoidal.py",
        "return sinusoids(each, self.shape.d_model // axes)",
        "return sinusoids(each, self.shape.d_model)[..., : self.shape.d_model // axes]",
        "position/test_sinusoidal.py::test_a_grid_by_hand",
    ),
    Mistake(
        "a flat baseline that sees rows and columns unasked",
        "build.py",
        "[structure.Seq()] if found.flat else [data, structure.Seq()]",
        "[data, structure.Seq()]",
        "test_build.py::test_a_run_keeps_its_name_unless_a_structure_is_asked_for",
    ),
    Mistake(
        "a Euclidean distance that is never rooted",
        "structure/_algebras.py",
        "return sum((1.0 * steps) ** 2 for steps in apart) ** 0.5",
        "return sum((1.0 * steps) ** 2 for steps in apart)",
        "position/test_orthogonal_grid.py::test_distances_by_hand",
    ),
    Mistake(
        "Euclidean distances in units of the largest grid of the batch",
        "position/orthogonal_grid.py",
        "return self.structure.straight(x, y).double()",
        "return self.structure.straight(x, y).double() * 4 / y.amax().clamp(min=4)",
        "position/test_orthogonal_grid.py::test_neither_the_batch_nor_padding_moves_a_pair",
    ),
    Mistake(
        "a distance that only the encoder's own attention has",
        "position/orthogonal_grid.py",
        'if self.metric == "path":',
        'if self.metric == "path" or x.flatten(1, 2).shape != y.flatten(1, 2).shape:',
        "test_reference.py::test_the_model_is_the_plain_one",
    ),
    Mistake(
        "a distance that has no effect, accepted",
        "position/orthogonal_grid.py",
        'if distance != "path" and shape.decay == 1.0:',
        'if distance != "path" and shape.decay == 0.0:',
        "position/test_orthogonal_grid.py::test_what_makes_no_sense_is_refused",
    ),
]
