"""`examples/minimal.py` runs from data to scores, at a tiny size, in an interpreter of its own."""

from __future__ import annotations

import re

from tests.interpreters import ROOT, python

EXAMPLE = ROOT / "examples" / "minimal.py"


def test_two_schemes_are_trained_and_scored() -> None:
    done = python(str(EXAMPLE), "--rows", "64", "--steps", "2")
    scores = re.findall(r"^(\S+): token accuracy (\d+\.\d)%$", done.stdout, flags=re.MULTILINE)
    assert [name for name, _ in scores] == ["sinusoidal", "orthogonal-tree"]
    assert all(0 <= float(score) <= 100 for _, score in scores)
