"""The examples on the page of sweep files are read, and its tables have every field."""

from __future__ import annotations

import json
import re
from pathlib import Path

from ape_cli.experiment.spec import ExperimentSpec, fields_of
from ape_cli.sweep.specification import SweepSpec, TuneSpec
from tests.conftest import ape
from tests.test_docs import PAGES

PAGE = PAGES["docs/reference/sweep-file.md"]
SWEEP, _ = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.S)
DRY = ["--device", "cpu", "--dry-run", "--json"]


def test_the_example_is_a_sweep(here: Path) -> None:
    Path("compare.toml").write_text(SWEEP)
    assert len(SWEEP.splitlines()) == 12
    trials = json.loads(ape("sweep", "compare.toml", *DRY)[0])["trials"]
    assert f"lists its {len(trials)} trials" in PAGE
    assert len({trial["dataset"] for trial in trials}) == 3
    assert len({trial["variant"] for trial in trials}) == 2


def test_every_field_is_described() -> None:
    for model in (SweepSpec, TuneSpec):
        for name, field in model.model_fields.items():
            assert field.description, name
            assert f"| {field.description.replace('|', chr(92) + '|')} |" in PAGE, name
    for name in fields_of(ExperimentSpec):
        assert f"| `{name}` |" in PAGE.split("## A single experiment")[1], name
