"""`ape draw`: in a terminal, in files, of runs, and its errors."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from ape_cli import experiment, position
from ape_cli.cli.draw import Places, SchemeOptions, of_run, of_scheme
from ape_cli.cli.drawings import PictureText
from ape_cli.data.loader import Dataset
from ape_cli.evaluation.position_scores import position_scores
from ape_cli.models.factory import of_experiment
from ape_cli.reports.pictures import Panel, load
from ape_cli.runs.registry import Registry
from ape_cli.runs.run import Run
from ape_cli.storage.tensors import load_tensors
from tests.conftest import ape
from tests.reports.pictures.material import line, made, subject


def lines(rows: list[list[Panel]], **options: object) -> list[str]:
    """A picture as lines of text without trailing spaces."""
    console = Console(width=120, **({"color_system": None} | options))  # type: ignore[arg-type]
    with console.capture() as captured:
        console.print(PictureText("a title", rows))
    return [text.rstrip() for text in captured.get().splitlines()]


def test_a_curve_in_characters() -> None:
    drawn = lines(load("offsets").panels(made(line())))
    assert drawn[:4] == ["a title", "", "mean by offset", "score: added to the logit"]
    assert [text[:8].strip() for text in drawn[4:17] if text[:8].strip()] == ["40", "30", "20", "10", "0"]
    assert drawn[7] == "      30 ┤                        ░░░░░"  # the first head at offset 2, where it is 31
    marks = [text.rfind("●") for text in drawn[4:17]]
    assert [mark for mark in marks if mark >= 0] == sorted((mark for mark in marks if mark >= 0), reverse=True)
    assert drawn[16] == "       0 ┤░░░░░ ░░░░░ ░░░░░ ░░░░░ ░░░░░"  # the second head
    assert drawn[18].split() == ["-2", "2"]


def test_a_heat_map_in_characters() -> None:
    """The numbers 5.5 10.5 15.5, 6 11 16 and 6.5 11.5 16.5, in five shades from 0 to 16.5."""
    drawn = lines(load("pairs").panels(made(line())))
    assert drawn[4:7] == ["       1  ░░▓▓██", "       2  ░░▓▓██", "       3  ░░▓▓██"]
    assert drawn[-1] == "0 [  ] 3.3 [░░] 6.6 [▒▒] 9.9 [▓▓] 13.2 [██] 16.5"


def test_a_tree_and_a_grid_in_characters() -> None:
    tree = subject("tree(2)", np.eye(3)[None], depth=1)
    assert lines(load("nodes").panels(made(tree)))[3:7] == [
        "1    0.00",
        "├── 2* ██ 1.00",
        "└── 3    0.00",
        "*: the query",
    ]
    grid = subject("grid(2)", np.eye(4)[None], side=2)
    assert lines(load("nodes").panels(made(grid, node=3)))[3:5] == ["   0.00     0.00", "   0.00  ██ 1.00*"]
    ring = subject("cyclic(2)", np.eye(2)[None])
    assert lines(load("nodes").panels(made(ring)))[3:5] == ["1* ██ 1.00", "2     0.00"]


def test_every_scheme_fits_80_columns() -> None:
    """Schemes whose scores depend on content are refused, with the reason."""
    for name in position.names():
        if position.load(name).overrides("logits"):
            assert f"the scores of {name} depend on the tokens" in ape("draw", name, "--view", "overview", code=2)[1]
            continue
        shown, _ = ape("draw", name, "--view", "overview")
        assert shown.startswith(f"{name} on ")
        assert max(map(len, shown.splitlines())) <= 80


def test_options_are_those_of_the_scheme() -> None:
    """The slopes of ALiBi with two heads are 2^-4 and 2^-8."""
    material = of_scheme("alibi", SchemeOptions(heads=2), Places(length=3))
    assert material.subjects[0].scores[:, 0].tolist() == [[0, -(2**-4), -(2**-3)], [0, -(2**-8), -(2**-7)]]
    narrow = of_scheme("rope", SchemeOptions(heads=2, settings=["d_model=4", "base=100"]), Places(length=3))
    np.testing.assert_allclose(narrow.subjects[0].scores[0, 0], np.cos([0, 1, 2]), atol=1e-9)  # one pair, angle 1
    assert narrow.title == "rope (d_model=4, base=100) on seq, 2 heads of 2 channels"
    one, two = (of_scheme("t5", SchemeOptions(heads=2, seed=seed), Places()).subjects[0].scores for seed in (1, 2))
    assert not np.array_equal(one, two)
    whole, half = (
        of_scheme("sinusoidal", SchemeOptions(settings=[f"positions_scale={scale}"]), Places()) for scale in (1, 0.5)
    )
    np.testing.assert_allclose(half.subjects[0].scores, whole.subjects[0].scores / 4, atol=1e-9)


def test_a_picture_has_the_places_that_are_asked_for() -> None:
    assert "from left to right: 1 to 3\n" in ape("draw", "rope", "--view", "pairs", "--length", "3")[0]
    for words, places in ((("orthogonal-tree", "--depth", "1"), 3), (("orthogonal-grid", "--side", "2"), 4)):
        assert (
            len(re.findall(r" \d\.\d\d", ape("draw", *words, "--view", "nodes")[0].partition("query at")[2])) == places
        )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "nothing to draw"),
        ("rope --out a.gif", "unknown extension"),
        ("rope --set epochs=3", "unknown setting"),
        ("rope --set positions_scale=0.5", "unknown setting"),
        ("rope --set heads=8", "unknown setting"),
        ("--run x --heads 2", "--heads with --view offsets --run"),
    ],
)
def test_one_clear_message(words: str, said: str, here: Path) -> None:
    shown, told = ape("draw", *words.split(), code=2)
    assert (shown, told[:7], told.count("error: ")) == ("", "error: ", 1)
    assert said in told


@pytest.fixture(scope="module")
def run(words: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Run:
    results = tmp_path_factory.mktemp("results")
    options = ("--set", "lr_peak=0.1", "--preset", "tiny", "--device", "cpu", "--no-eval", "--results", str(results))
    ape("train", "--scheme", "orthogonal-seq", "--data", str(words.folder), *options)
    return next(iter(Registry(Path(results))))


def test_before_and_after_training(run: Run, words: Dataset) -> None:
    """Before: the model as it is built from the seed. After: the tensors of the run's file."""
    before, after = of_run(run, Places(length=8), before=True).subjects
    assert (before.name, after.name) == ("before training", "after training")
    scheme = of_experiment(experiment.of(run.record.config, words)).scheme
    np.testing.assert_allclose(before.scores, position_scores(scheme, before.places)[0], atol=1e-9)
    stored, *_ = load_tensors(run.folder / "model.safetensors")
    with torch.no_grad():
        for name, parameter in scheme.named_parameters():
            parameter.copy_(stored[f"scheme.{name}"])
    np.testing.assert_allclose(after.scores, position_scores(scheme, after.places)[0], atol=1e-9)
    assert np.abs(before.scores - after.scores).max() > 0.01
    (trained,) = of_run(run, Places(length=8), before=False).subjects
    assert np.array_equal(trained.scores, after.scores)


def test_a_decoder_only_run_has_the_scalars_of_its_decoder(words: Dataset, tmp_path: Path) -> None:
    """Those of the encoder are not trained. The bucket of a key up to 15 steps behind is the distance."""
    options = ("--preset", "tiny", "--device", "cpu", "--no-eval", "--results", str(tmp_path))
    ape("train", "--scheme", "t5", "--model", "decoder", "--data", str(words.folder), *options)
    trained = next(iter(Registry(tmp_path)))
    (subject,) = of_run(trained, Places(length=8), before=False).subjects
    stored, *_ = load_tensors(trained.folder / "model.safetensors")
    np.testing.assert_allclose(subject.scores[:, -1, ::-1], stored["scheme.scalars"][1, :, :8], atol=1e-6)


def test_pictures_of_a_run(run: Run, here: Path) -> None:
    results = ("--results", str(run.folder.parents[1]))
    shown, _ = ape("draw", "--run", run.name[:10], "--view", "training", *results)
    assert shown.count("before training") == shown.count("after training") == 2
    shown, _ = ape("draw", "--run", run.name, "--view", "attention", "--attention", "cross", "--row", "3", *results)
    assert "cross attention on reverse, test row 3" in shown
    assert "layer 1, head 2" in shown
    assert max(map(len, shown.splitlines())) <= 80
    _, told = ape("draw", "--run", run.name, "--view", "attention", "--out", "a/b.svg", *results)
    assert told == "written: a/b.svg\n"
    assert Path("a/b.svg").read_text().startswith("<?xml")
    _, told = ape("draw", "rope", "--run", run.name, *results, code=2)
    assert "the run uses another scheme" in told
