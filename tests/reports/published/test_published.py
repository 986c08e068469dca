"""Published numbers: their files, and what stands beside our scores."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ape_cli import tasks
from ape_cli.core.errors import UsageError
from ape_cli.experiment import ExperimentSpec
from ape_cli.reports import descriptions, published, rendering
from ape_cli.runs.config import PRESETS
from tests.conftest import ape
from tests.registered import put_evaluation
from tests.reports.test_aggregation import add, lines, tables_of

OWN = """
title = "Doe 2025"
spread = "interval"

[[table]]
name = "Table 1"
numbers = [
    ["reverse", "", "rope", "token_accuracy", 0.9],
    ["reverse", "", "rope (learned=true)", "token_accuracy", 0.95, 0.01],
    ["tree-copy", "depth", "alibi", "perplexity", 1.5, 0.2],
]
"""


def test_perplexities_are_counted_as_by_the_authors_program() -> None:
    """It averages over all target symbols of a batch of 32 but padding and the last place, SOS included.

    The last symbol of a row has no label, so its loss is 0. In the longest row, it is in the last place.
    """
    lengths = torch.arange(3, 35)  # with SOS
    real = torch.arange(34) < lengths[:, None]
    nats = torch.rand(32, 33, generator=torch.Generator().manual_seed(1)) * real[:, 1:]
    theirs = nats[real[:, :-1]].mean().exp().item()
    rows, tokens = len(lengths), int(real[:, 1:].sum())
    ours = (nats.sum() / tokens).exp().item()
    assert theirs < ours
    assert published.load("neurips").counted(ours, "perplexity", rows, tokens) == pytest.approx(theirs)
    assert published.load("neurips").counted(0.5, "token_accuracy", rows, tokens) == 0.5
    assert published.load("paper").counted(ours, "perplexity", rows, tokens) == ours


def test_the_numbers_are_complete() -> None:
    """Values by hand from the two versions of the paper, and the number of cells of their tables."""
    preprint, paper = published.load("paper"), published.load("neurips")
    assert published.names() == ["neurips", "paper"]
    assert len(preprint.numbers) == 4 * 3 + 5 * 8 + 4 * 2
    assert len(paper.numbers) == 7 * 4 + 10 * 8 + 6 * 2
    for task in ("tree-copy", "tree-rotate", "c3", "tree-ops"):
        first, second = (
            preprint.number("rope", "", f"{task}/{order}", "token_accuracy") for order in ("depth", "breadth-to-depth")
        )
        assert first == second is not None
        assert preprint.number("rope", "", f"{task}/depth-to-breadth", "token_accuracy") is None
    for source, row, column, metric, expected in (
        (preprint, ("orthogonal-tree", ""), "c3/breadth", "token_accuracy", (0.8767, 0.105)),
        (preprint, ("orthogonal-seq", ""), "c3/breadth", "token_accuracy", (0.8280, None)),
        (preprint, ("rope", ""), "tree-ops/depth", "token_accuracy", (0.3967, 0.03)),
        (preprint, ("learned", ""), "images/cifar-10 @300", "token_accuracy", (0.9268, 0.002)),
        (paper, ("sinusoidal", ""), "copy", "perplexity", (1.01, 0.0)),
        (paper, ("rope", "learned=true"), "tree-copy/breadth-to-depth", "perplexity", (1.70, 0.05)),
        (paper, ("orthogonal-tree", "init=rope"), "tree-ops/breadth", "perplexity", (2.24, 0.06)),
        (paper, ("tree", ""), "tree-rotate/breadth-to-depth (rotation right)", "perplexity", (1.87, 0.24)),
        (paper, ("orthogonal-grid", "init=rope"), "images/cifar-10 @150", "token_accuracy", (0.9313, 0.0033)),
        (paper, ("learned", ""), "wmt14-en-de", "bleu", (22.09, 0.11)),
    ):
        number = source.number(*row, column, metric)
        assert number is not None
        assert number[-2:] == expected, (row, column)
    assert paper.number("tree", "", "tree-rotate/breadth", "perplexity") is None  # the mirror image is another task
    assert paper.number("rope", "", "tree-copy/depth", "perplexity") is None  # its sources are breadth first


def test_the_deviation_behind_an_interval() -> None:
    """Half of the 95% interval of 3 seeds is 4.302653 / √3 = 2.484138 deviations: 0.63 / 2.484138 = 0.253609."""
    paper, preprint = published.load("neurips"), published.load("paper")
    wide = paper.number("sinusoidal", "", "tree-copy/breadth-to-depth", "perplexity")
    narrow = paper.number("rope", "", "copy", "perplexity")  # 0.00, so it may be 0.005
    std, none = (
        preprint.number("orthogonal-seq", "", f"c3/{order}", "token_accuracy") for order in ("depth", "breadth")
    )
    assert wide is not None
    assert narrow is not None
    assert std is not None
    assert none is not None
    assert paper.deviation(wide) == pytest.approx(0.253609, abs=1e-6)
    assert paper.deviation(narrow) == pytest.approx(0.005 / 2.484138, abs=1e-6)
    assert preprint.deviation(std) == pytest.approx(0.01)
    assert preprint.deviation(none) == pytest.approx(0.0005)


def test_a_file_of_one_s_own(tmp_path: Path) -> None:
    """Three made-up numbers stand beside runs of the same row, column and metric."""
    file = tmp_path / "doe.toml"
    file.write_text(OWN)
    for seed, value in ((1, 0.8), (2, 0.9)):
        add(tmp_path, "rope", value, seed)
        add(tmp_path, "rope", value, seed, variant={"learned": True})
    out, _ = ape("report", "--results", str(tmp_path), "--against", str(file), "--format", "markdown")
    assert "| rope | <ins>85.00</ins> ±7.1 [90.00] |" in out
    assert "| rope (learned=True) | <ins>85.00</ins> ±7.1 [95.00 ±1.0] |" in out
    assert "In brackets: Doe 2025, ± half of the 95% interval over 3 seeds." in out
    rows = {line["variant"]: line for line in lines(tmp_path, against=str(file))}
    assert rows["learned=True"]["paper_mean"] == 0.95
    assert (rows["learned=True"]["paper_column"], rows[""]["paper_spread"]) == ("reverse", None)


@pytest.mark.parametrize(("preset", "size"), [("medium", ""), ("small", "; ours differ in size")])
def test_a_file_of_one_s_own_names_the_preset_of_its_size(tmp_path: Path, preset: str, size: str) -> None:
    file = tmp_path / "doe.toml"
    file.write_text(OWN.replace('"interval"', '"interval"\npresets = ["medium"]', 1))
    add(tmp_path, "rope", 0.9, preset=preset, full_size=True)
    (table,) = tables_of(tmp_path, against=str(file))
    assert any(f"In brackets: Doe 2025, 3 seeds{size}." in note for note in table.notes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("title", "tile"), "tile: Extra inputs are not permitted|title: Field required"),
        (('"rope", "token_accuracy", 0.9]', '"rope", "token_accuracy"]'), "numbers"),
        (('"rope", "token_accuracy", 0.9]', '"rope", "accuracy", 0.9]'), "not one of the metrics token_accuracy"),
        (("0.9],", "90.0],"), "token_accuracy outside 0 to 1"),
        (('perplexity", 1.5', 'perplexity", 0.5'), "perplexity outside 1 to inf"),
        (("rope (learned=true)", "rope"), "two numbers for reverse, rope, token_accuracy"),
        (("0.95, 0.01", "0.95, -0.01"), "has a negative spread"),
        (('"interval"', '"interval"\npresets = ["tyni"]'), "unknown preset of published numbers"),
        (('"interval"', '"interval"\ncolumns = { copy = "copy" }'), "has copy, for which there are no numbers"),
    ],
)
def test_a_wrong_file(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    file = tmp_path / "doe.toml"
    assert change[0] in OWN
    file.write_text(OWN.replace(*change, 1))
    with pytest.raises(UsageError, match=message):
        published.load(str(file))


def against(where: Path, values: tuple[float, ...], **options: Any) -> dict[str, Any]:
    for seed, value in enumerate(values):
        add(where, "rope", value, seed, **options)
    (line,) = lines(where, against="paper")
    return line


def test_both_readings_of_a_depth_column_stand_beside_it(tmp_path: Path) -> None:
    """rope has 85.46 on tree-copy there. A note says which column the text describes, and which one the numbers fit."""
    orders = ["breadth", "depth", "breadth-to-depth", "depth-to-breadth"]
    for order in orders:
        add(tmp_path, "rope", 0.9, task="tree-copy", order=order, fingerprint=order[0] * 64)
    beside = {line["order"]: line["paper_mean"] for line in lines(tmp_path, against="paper")}
    depth = pytest.approx(0.8546)
    assert beside == {"breadth": 1.0, "depth": depth, "breadth-to-depth": depth, "depth-to-breadth": None}
    (made,) = tables_of(tmp_path, against="paper")
    assert made.columns == [f"tree-copy/{order}" for order in orders]
    assert any("one `depth` column" in rule for rule in made.rules)
    assert not any("one `depth` column" in rule for rule in tables_of(tmp_path)[0].rules)


def test_numbers_of_sinusoidal_have_a_mark_and_a_note(tmp_path: Path) -> None:
    for scheme in ("sinusoidal", "rope"):
        add(tmp_path, scheme, 0.9, task="copy")
    (made,) = tables_of(tmp_path, against="paper")
    assert " ".join(made.notes).endswith("†: doubtful.")
    assert any(rule.startswith("†: in the first release") for rule in made.rules)
    for form, marked in (("markdown", "[13.80† ±3.5]"), ("latex", r"[$13.80^\dagger_{\pm 3.5}$]")):
        assert marked in rendering.text(form, [made])
    assert not any("†" in note for note in tables_of(tmp_path)[0].notes)


def test_other_rotations_and_bounds_stand_beside_the_paper_s_numbers(tmp_path: Path) -> None:
    """The paper does not say which of three rotations it has, nor the bound that its code gives to `tree`."""
    of_root: dict[str, Any] = {"task": "tree-rotate", "order": "breadth", "given": {"mirror": "root"}}
    add(tmp_path, "rope", 0.9, **of_root)
    add(tmp_path, "tree", 0.9, variant={"max_size": 7}, **of_root)
    add(tmp_path, "rope", 0.9, variant={"dropout": 0.5}, **of_root)
    found = {(line["scheme"], line["variant"]): line["paper_mean"] for line in lines(tmp_path, against="paper")}
    rope, tree = pytest.approx(0.9119), pytest.approx(0.9799)
    assert found == {("rope", ""): rope, ("tree", "max_size=7"): tree, ("rope", "dropout=0.5"): None}


def test_the_difference_by_hand(tmp_path: Path) -> None:
    """rope on reverse is 97.00 there.

    For 0.96, 0.97 and 0.965, half is 4.302653 × 0.005 / √3 = 0.01242, so 0.97 is inside.
    """
    line = against(tmp_path / "near", (0.96, 0.97, 0.965), preset="paper", full_size=True)
    assert line["paper_difference"] == pytest.approx(-0.005)
    assert line["paper_in_interval"] is True
    line = against(tmp_path / "one", (0.96,), preset="paper", full_size=True)
    assert (line["paper_difference"], line["paper_in_interval"]) == (pytest.approx(-0.01), None)
    line = against(tmp_path / "far", (0.94, 0.95, 0.945), preset="paper", full_size=True)
    assert line["paper_difference"] == pytest.approx(-0.025)
    assert line["paper_in_interval"] is False


def test_a_rounded_mean_is_inside_where_what_it_may_stand_for_is(tmp_path: Path) -> None:
    """97.00 may be a rounded 97.004."""
    assert against(tmp_path / "a", (0.97004,) * 2, preset="paper", full_size=True)["paper_in_interval"] is True
    assert against(tmp_path / "b", (0.97006,) * 2, preset="paper", full_size=True)["paper_in_interval"] is False


def test_a_number_stands_beside_test_scores_on_the_training_data_alone(tmp_path: Path) -> None:
    folder = add(tmp_path, "rope", 0.9)
    (path,) = (folder / "eval").iterdir()
    usual = json.loads(path.read_text())
    for changes in ({"split": "validation"}, {"decode": "greedy"}, {"fingerprint": "e" * 64}):
        put_evaluation(folder, usual | changes)
    found = {
        (line["split"], line["decode"], line["fingerprint"][0]): line["paper_mean"]
        for options in ({}, {"split": "validation"}, {"decode": "greedy"})
        for line in lines(tmp_path, against="paper", **options)
    }
    beside = {("test", "teacher", "f"): pytest.approx(0.97), ("test", "teacher", "e"): None}
    assert found == beside | {("validation", "teacher", "f"): None, ("test", "greedy", "f"): None}


def test_another_size_has_no_difference(tmp_path: Path) -> None:
    for name, options in (("small", {"preset": "small", "full_size": True}), ("rows", {"preset": "paper"})):
        line = against(tmp_path / name, (0.96, 0.97, 0.965), **options)
        assert line["paper_mean"] == pytest.approx(0.97)
        assert (line["paper_difference"], line["paper_in_interval"]) == (None, None)


def test_tasks_with_rows_of_their_own_have_no_size_of_the_paper() -> None:
    """Whether a run has the paper's size is asked without reading the source of its data."""
    rows = {"train": 10_000, "validation": 1_000, "test": 1_000}
    options, of_paper = (
        {"source": "json", "task": "copy", "labels": "kind"},
        ExperimentSpec(preset="paper", scheme="rope").config("sequence"),
    )
    trained = SimpleNamespace(task="trees", order="depth", rows=rows, parameters=options, image=None)
    assert not descriptions.has_preset_size(of_paper, trained)
    own = tasks.make("copy")
    trained = SimpleNamespace(task="copy", order=None, rows=rows, parameters=own.parameters, image=None)
    assert descriptions.has_preset_size(of_paper, trained)


@pytest.mark.parametrize(("preset", "kind"), [("paper", "sequence"), ("neurips", "sequence"), ("paper", "image")])
def test_a_run_has_the_paper_s_size_only_with_its_model_and_steps(preset: str, kind: str) -> None:
    """Settings of the model and of the number of steps decide the size, and settings of the method do not."""
    rows = {"train": 45_000, "validation": 5_000, "test": 10_000} if kind == "image" else PRESETS[preset].rows
    task = "images" if kind == "image" else "copy"
    parameters = {"source": "cifar-10"} if kind == "image" else tasks.make("copy").parameters
    trained = SimpleNamespace(task=task, order=None, rows=rows, parameters=parameters, image=[1] * (kind == "image"))

    def whole(settings: dict[str, Any], **options: Any) -> bool:
        found = ExperimentSpec(preset=preset, scheme="rope", set=settings, **options).config(kind)
        return descriptions.has_preset_size(found, trained)

    of_method = [{}, {"lr_peak": 0.01}, {"dropout": 0.4}, {"warmup": 0.1}, {"max_size": 7}, {"decay": 0.5}]
    assert [
        settings
        for settings in [*of_method, {"learned": True}, {"d_model": PRESETS[preset].of(kind)["d_model"]}]
        if not whole(settings)
    ] == []
    assert whole({}, structure="grid(2)", precision="tf32", seed=2)  # as the paper's `sinusoidal` on images
    of_images = ["convolution_size", "convolution_stride", "pool_size", "pool_stride"]
    of_kind = of_images if kind == "image" else ["decoder_layers", "d_ff_decoder"]
    sizes = ["d_model", "d_ff", "heads", "encoder_layers", "epochs", "steps", "batch_size", *of_kind]
    assert [name for name in sizes if whole({name: 6})] == []
    assert kind == "image" or not whole({}, model="decoder")
