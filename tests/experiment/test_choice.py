"""The choice of a dataset: without one, a task that the scheme reads, with the sizes of the preset."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch

from ape_cli import position
from ape_cli.core.errors import DataError, UsageError
from ape_cli.data import generation
from ape_cli.data.loader import open_dataset
from ape_cli.experiment import ExperimentSpec, resolve
from ape_cli.experiment.choice import find_dataset, preset_plan
from ape_cli.experiment.resolution import prepared
from ape_cli.models import factory
from ape_cli.position import Scheme
from tests.conftest import write


@pytest.mark.parametrize(
    ("structures", "wanted", "order", "task"),
    [
        (("seq",), None, None, "reverse"),
        (("tree(k)",), None, None, "tree-rotate"),
        (("grid(n)",), None, None, "grid-rotate"),
        (("cyclic(n)",), None, None, "ring-shift"),
        (("grid(n)", "tree(k)"), None, None, "tree-rotate"),
        (("seq",), None, "depth", "tree-rotate"),  # an order is for trees, which a scheme for sequences reads too
        (("any",), "seq*tree(2)", None, "tree-rotate"),
        (("any",), "grid(2)", None, "grid-rotate"),
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
    request = ExperimentSpec(preset="tiny", scheme="kind", structure=wanted, order=order)
    chosen = find_dataset(request, tmp_path)
    assert (chosen.modality, chosen.task, chosen.missing) == ("sequence", task, True)
    assert order in (None, chosen.order)
    assert chosen.folder.name == (f"{task}-{chosen.order}-tiny" if chosen.order else f"{task}-tiny")
    assert task in caplog.messages[0]


def test_a_damaged_dataset_is_named_before_another_is_taken(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "ape_cli")
    for name in ("older", "newer"):
        write(tmp_path / name, "reverse", rows=(24, 8, 8))
    path = tmp_path / "newer" / "manifest.json"
    path.write_text(path.read_text()[:-20])
    find_dataset(ExperimentSpec(preset="tiny", scheme="rope"), tmp_path)
    assert caplog.messages[0].startswith("left out: newer: ")
    assert f"data: {tmp_path / 'older'}, the newest" in caplog.messages[1]


def test_without_data_of_a_structure_it_says_how_to_make_some(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no dataset[\s\S]*tree\(3\)[\s\S]*--branching 3"):
        find_dataset(ExperimentSpec(preset="tiny", scheme="orthogonal", structure="tree(3)"), tmp_path)


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("copy", {"length_mean": 6, "length_std": 1, "vocabulary": 20}),
        ("c3", {"depth_mean": 2, "depth_std": 0.5}),
        ("ring-shift", {"ring": 6, "vocabulary": 20}),
    ],
)
def test_a_preset_sizes_each_task_by_the_options_it_has(task: str, expected: dict, tmp_path: Path) -> None:
    plan = preset_plan(task, None, "tiny", tmp_path)[1]
    assert (plan.parameters, plan.rows) == (expected, {"train": 200, "validation": 40, "test": 40})


def test_chosen_sizes_replace_those_of_the_preset_and_share_its_rows(tmp_path: Path) -> None:
    """At preset tiny, 200 training rows and 40 others: 67 and 14 for each of three sizes, rounded up."""
    task, plan, folder = preset_plan("copy", None, "tiny", tmp_path, "2-3,9")
    assert plan.parameters == {"sizes": [2, 3, 9], "vocabulary": 20}
    assert plan.rows == {"train": 3 * 67, "validation": 3 * 14, "test": 3 * 14}
    assert folder.name == "copy-sizes-2-3_9-tiny"
    former = tmp_path / "copy-sizes-2-3-9-tiny"  # the name that earlier versions gave
    generation.generate(task, plan, former)
    assert preset_plan("copy", None, "tiny", tmp_path, "2-3,9")[2] == former
    assert preset_plan("copy", None, "tiny", tmp_path, "2,3,4,9")[2].name == "copy-sizes-2-4_9-tiny"
    former.rename(folder)
    drawn = open_dataset(folder).split("train").table()["size"].to_pylist()
    assert Counter(drawn) == {2: 67, 3: 67, 9: 67}
    with pytest.raises(UsageError, match="sizes"):
        preset_plan("ring-shift", None, "tiny", tmp_path, "2-3")


def test_learned_has_a_vector_for_each_position_of_the_longest_word(tmp_path: Path) -> None:
    """And not only for those of a word of mean length, whose last vector the longer half would share."""
    request = ExperimentSpec(preset="tiny", scheme="learned", task="copy", sizes="1-40")
    experiment = prepared(resolve(request, find_dataset(request, tmp_path)))
    data = experiment.data
    scheme = factory.build(experiment.config, data.structure, data.ids).scheme
    nothing, at = torch.zeros(1, 40, experiment.config.d_model), torch.arange(1, 41).expand(1, 40)
    assert scheme.embed(nothing, scheme.context(at))[0].unique(dim=0).shape[0] == 40


def test_the_published_setup_writes_sources_breadth_first(tmp_path: Path) -> None:
    """So its column `depth` is `breadth-to-depth`. Only an order of the source itself replaces this.

    It also rotates trees to the right.
    """
    folders = {
        (preset, order): preset_plan("tree-copy", order, preset, tmp_path)[2].name
        for preset in ("neurips", "paper")
        for order in (None, "breadth", "depth", "breadth-to-depth", "depth-to-breadth")
    }
    of_neurips = [folder for (preset, _), folder in folders.items() if preset == "neurips"]
    assert of_neurips == [
        "tree-copy-breadth-neurips",
        "tree-copy-breadth-neurips",
        "tree-copy-breadth-to-depth-neurips",
        "tree-copy-breadth-to-depth-neurips",
        "tree-copy-depth-to-breadth-neurips",
    ]
    assert folders["paper", "depth"] == "tree-copy-depth-paper"
    task, plan, _ = preset_plan("tree-copy", "depth", "neurips", tmp_path)
    assert (task.order, task.source_order, plan.linearisation) == ("depth", "breadth", "breadth-to-depth")
    assert preset_plan("copy", None, "neurips", tmp_path)[2].name == "copy-neurips"
    for preset, rotation in (("neurips", "right"), ("paper", "mirror")):
        assert preset_plan("tree-rotate", "depth", preset, tmp_path)[0].options["rotation"] == rotation
    for preset, trees in (("neurips", (True, 6.5)), ("paper", (False, 7.0))):  # those of the authors' programs, or ours
        for name in ("tree-copy", "tree-rotate", "c3", "tree-ops"):
            options = preset_plan(name, "depth", preset, tmp_path)[0].options
            assert (options["redraw"], options["depth_mean"]) == trees
