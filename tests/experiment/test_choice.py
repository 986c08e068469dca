"""The choice of a dataset: without one, a task that the scheme reads, with the sizes of the preset."""

from __future__ import annotations

from pathlib import Path

import pytest

from ape_cli import position
from ape_cli.core.errors import DataError
from ape_cli.experiment import ExperimentOptions
from ape_cli.experiment.choice import Datasets, preset_dataset
from ape_cli.position import Scheme
from tests.conftest import write


@pytest.mark.parametrize(
    ("structures", "wanted", "order", "task"),
    [
        (("seq",), None, None, "reverse"),
        (("any",), None, None, "reverse"),
        (("tree(k)",), None, None, "tree-rotate"),
        (("grid(n)",), None, None, "grid-rotate"),
        (("cyclic(n)",), None, None, "ring-shift"),
        (("grid(n)", "tree(k)"), None, None, "tree-rotate"),
        (("seq",), None, "depth", "tree-rotate"),  # an order is for trees, which a scheme for sequences reads too
        (("any",), "seq*tree(2)", None, "tree-rotate"),
        (("any",), "grid(2)", None, "grid-rotate"),
        (position.load("sinusoidal").structures, None, None, "reverse"),
        (position.load("sinusoidal").structures, "grid(2)", None, "grid-rotate"),
    ],
)
def test_without_data_a_scheme_gets_a_task_that_it_reads(
    structures: tuple[str, ...],
    wanted: str | None,
    order: str | None,
    task: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "ape_cli")
    kind = type("Kind", (Scheme,), {"structures": structures})
    monkeypatch.setattr(position, "load", lambda name: kind)
    chosen = Datasets(tmp_path).of(ExperimentOptions(preset="tiny", scheme="kind", structure=wanted, order=order))
    assert (chosen.kind, chosen.task, chosen.missing) == ("sequence", task, True)
    assert order in (None, chosen.order)
    assert chosen.folder.name == (f"{task}-{chosen.order}-tiny" if chosen.order else f"{task}-tiny")
    assert task in caplog.messages[0]


def test_a_damaged_dataset_is_named_before_another_is_taken(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "ape_cli")
    for name in ("older", "newer"):
        write(tmp_path / name, "reverse", rows=(24, 8, 8))
    path = tmp_path / "newer" / "manifest.json"
    path.write_text(path.read_text()[:-20])
    Datasets(tmp_path).of(ExperimentOptions(preset="tiny", scheme="rope"))
    assert caplog.messages[0].startswith("left out: newer: ")
    assert f"data: {tmp_path / 'older'}, the newest" in caplog.messages[1]


def test_without_data_of_a_structure_it_says_how_to_make_some(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no dataset[\s\S]*tree\(3\)[\s\S]*--branching 3"):
        Datasets(tmp_path).of(ExperimentOptions(preset="tiny", scheme="orthogonal", structure="tree(3)"))


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("copy", {"length_mean": 6, "length_std": 1, "vocabulary": 20}),
        ("c3", {"depth_mean": 2, "depth_std": 0.5}),
        ("grid-copy", {"side_mean": 3, "side_std": 0.5, "vocabulary": 20}),
        ("ring-shift", {"ring": 6, "vocabulary": 20}),
    ],
)
def test_a_preset_sizes_each_task_by_the_options_it_has(task: str, expected: dict, tmp_path: Path) -> None:
    found = preset_dataset(task, None, "tiny", tmp_path)
    assert found.manifest.plan.parameters == expected
    assert found.manifest.plan.rows == {"train": 200, "validation": 40, "test": 40}
