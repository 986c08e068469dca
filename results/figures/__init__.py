"""The figures of the findings in results/README.md, from the committed runs: one SVG file for each.

`make record` draws them through `record.py`. A row whose runs are missing is left out, and so is a figure without rows.
The bytes depend on the version of matplotlib, which `constraints.txt` pins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from ape_cli.core.errors import DataError
from ape_cli.runs.registry import Registry, open_registry
from ape_cli.sweep.stages import Stages
from results.figures import rows, sweeps
from results.figures.forest import Finding, picture
from results.figures.scores import Scores
from results.numbers import AGAIN


def findings(registry: Registry, plans: Mapping[str, Stages]) -> dict[str, Finding]:
    """The figures that have rows, by name. `plans` has the planned trials of `sweeps.SWEEPS` that are known."""
    scores = Scores(registry)
    named = (rows.sinusoidal, rows.order, rows.locality, rows.metric, rows.bound, rows.images)
    made = {make.__name__: make(scores) for make in named}
    made |= {make.__name__: make(registry) for make in (sweeps.ingredients, sweeps.init, sweeps.extraction)}
    made |= {make.__name__: make(registry, plans) for make in (sweeps.structure, sweeps.longer, sweeps.deeper)}
    made["larger"] = sweeps.larger(open_registry(AGAIN))
    return {name: drawable for name, finding in made.items() if (drawable := _drawable(finding))}


def drawn(registry: Registry, planned: Callable[[str], Stages]) -> dict[str, str]:
    """The SVG files of the figures by name. `planned` returns the planned trials of a sweep, or raises `DataError`."""
    plans = {}
    for sweep in sweeps.SWEEPS:
        with suppress(DataError):
            plans[sweep] = planned(sweep)
    return {f"{name}.svg": picture(finding) for name, finding in findings(registry, plans).items()}


def _drawable(finding: Finding) -> Finding | None:
    """The finding without rows and blocks that have no cells. None if nothing is left."""
    blocks = [b._replace(rows=[row for row in b.rows if row.cells]) for b in finding.blocks]
    blocks = [block for block in blocks if block.rows]
    return finding._replace(blocks=blocks) if blocks else None
