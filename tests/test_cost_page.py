"""The tables of docs/explanation/cost.md are those of the benchmarks of record."""

from __future__ import annotations

import re

import pytest

from tests.record.costs import SHAPES, on_a_cpu, on_a_gpu
from tests.record.scores import ROOT

PAGE = (ROOT / "docs" / "explanation" / "cost.md").read_text(encoding="utf-8")


def rows(heading: str) -> dict[str, list[str]]:
    """The first table below a heading: the cells of each scheme."""
    table = PAGE.split(f"\n## {heading}\n")[1].split("\n\n|")[1].split("\n\n")[0]
    lines = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    return {re.findall(r"`([^`]+)`", name)[0]: cells for name, *cells in lines}


@pytest.mark.parametrize(("heading", "benchmark"), [("Time on a CPU", "step"), ("Memory", "step_memory")])
def test_the_ratios_of_a_cpu_are_those_of_record(heading: str, benchmark: str) -> None:
    for scheme, cells in rows(heading).items():
        plain, biased = ([on_a_cpu(benchmark, scheme, shape, bias) for shape in SHAPES] for bias in (False, True))
        assert cells == [f"{x:.2f} ({y:.2f})" for x, y in zip(plain, biased, strict=True)], scheme


def test_the_ratios_of_a_gpu_are_those_of_record() -> None:
    for scheme, cells in rows("Time on a GPU").items():
        found = [on_a_gpu(scheme, task) for task in ("reverse", "tree-rotate/breadth")]
        assert cells == ["—" if ratio is None else f"{ratio:.2f}" for ratio in found], scheme
