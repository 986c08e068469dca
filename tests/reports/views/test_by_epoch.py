"""Scores at checkpoints of the schedule, from histories made by hand."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch

from ape_cli import experiment
from ape_cli.core.errors import ApeError, left_out
from ape_cli.experiment import ExperimentSpec
from ape_cli.experiment.choice import preset_dataset
from ape_cli.reports import rendering
from ape_cli.reports.tables import Table
from ape_cli.reports.views import Options, by_epoch
from ape_cli.reports.views.by_epoch import BEST, CHOSEN, VALIDATION
from ape_cli.runs.registry import Registry, open_registry
from ape_cli.training import trial
from ape_cli.training.execution import Execution
from tests import conftest
from tests.registered import rename, replace, vouch, write
from tests.reports import test_curves

VIEW = by_epoch.ByEpoch()
Scores = Sequence[float | None]
V = [0.5, 0.7, 0.7, 0.6, 0.9, 0.8]
T = [0.4, 0.6, 0.8, 0.5, 0.7, 0.95]
ALL_IMAGES = {"train": 45_000, "validation": 5_000, "test": 10_000}


def put(
    where: Path,
    scheme: str,
    validation: list[float],
    test: Scores | None,
    seed: int = 1,
    *,
    in_epochs: bool = True,
    rows: dict[str, int] | None = None,
    per_epoch: int = 1,
    **options: Any,
) -> Path:
    """A run on images that was validated every 100 steps, or every `per_epoch` epochs if this is set."""
    options = {"source": "digits"} | options
    folder = test_curves.put(where, scheme, validation, seed, test=test, **options)
    path, steps = folder / "run.json", 100 * len(validation)
    about = json.loads(path.read_text())
    about["result"]["steps"] = steps
    given = {"epochs": per_epoch * len(validation), "steps": None} if in_epochs else {"epochs": None, "steps": steps}
    about["config"] |= given
    if rows:
        about["dataset"]["rows"] = rows
    write(path, about)
    folder = rename(folder)
    if rows:
        next((folder / "eval").iterdir()).unlink()  # it has other rows
    vouch(folder)
    return folder


def lines(where: Path, against: str | None = None) -> pl.DataFrame:
    with left_out() as bad:
        found = VIEW.read(Registry(where), Options(against=against))
    assert bad == []
    return found.lines


def means(found: pl.DataFrame) -> dict[tuple[str, str], float]:
    return {(line["measure"], line["checkpoint"]): line["mean"] for line in found.iter_rows(named=True)}


def tables(where: Path, **options: Any) -> list[Table]:
    return VIEW.tables(VIEW.read(Registry(where), Options(**options)))


def test_a_checkpoint_by_hand(tmp_path: Path) -> None:
    """Until epoch 3 of 6, validation is best at 2 and as good at 3; the first counts. The best test score is at 3."""
    put(tmp_path, "rope", V, T)
    found = lines(tmp_path)
    assert means(found) == {
        (VALIDATION, "@3"): 0.7,
        (CHOSEN, "@3"): 0.6,
        (BEST, "@3"): 0.8,
        (VALIDATION, "@6"): 0.9,
        (CHOSEN, "@6"): 0.7,
        (BEST, "@6"): 0.95,
    }
    places = set(found.select("checkpoint", "step", "epoch").rows())
    assert places == {("@3", 300, 3.0), ("@6", 600, 6.0)}
    assert dict(found.select("measure", "split").rows()) == {VALIDATION: "validation", CHOSEN: "test", BEST: "test"}


def test_cross_entropy_by_hand(tmp_path: Path) -> None:
    """A loss is 2 - 2 accuracy. The lowest one counts on validation and test. The weights are the same as before."""
    put(tmp_path, "rope", V, T)
    put(tmp_path, "none", V[::-1], T)
    whole = VIEW.read(Registry(tmp_path), Options("cross_entropy"))
    found = whole.lines
    assert set(found["metric"]) == {"cross_entropy"}
    accuracy = means(lines(tmp_path).filter(scheme="rope"))
    assert means(found.filter(scheme="rope")) == {key: pytest.approx(2 - 2 * value) for key, value in accuracy.items()}
    worse = found.filter(measure=VALIDATION, checkpoint="@3").select("scheme", "best").rows()
    assert dict(worse) == {"rope": False, "none": True}  # 2 - 2 0.9 until 3, compared with 2 - 2 0.7
    assert {t.unit for t in VIEW.tables(whole)} == {"nats an image"}


def test_half_of_an_odd_schedule(tmp_path: Path) -> None:
    """Half of 5 epochs is 2.5, after the second and before the third validation."""
    put(tmp_path, "rope", [0.1, 0.2, 0.9, 0.3, 0.4], [0.3, 0.4, 0.1, 0.2, 0.5])
    found = means(lines(tmp_path))
    assert (found[VALIDATION, "@2.5"], found[BEST, "@2.5"]) == (0.2, 0.4)
    assert (found[VALIDATION, "@5"], found[CHOSEN, "@5"], found[BEST, "@5"]) == (0.9, 0.1, 0.5)


def test_the_best_is_that_of_each_run(tmp_path: Path) -> None:
    """The mean of 0.9 and 0.8, not the best of the means 0.45 and 0.5. The same holds for the choice by validation."""
    put(tmp_path, "rope", [0.3, 0.2], [0.8, 0.2], 1)
    put(tmp_path, "rope", [0.3, 0.4], [0.1, 0.9], 2)
    found = lines(tmp_path)
    assert set(found["seeds"]) == {2}
    at_end = {k[0]: v for k, v in means(found).items() if k[1] == "@2"}
    assert at_end == {VALIDATION: pytest.approx(0.35), CHOSEN: pytest.approx(0.85), BEST: pytest.approx(0.85)}
    (line,) = found.filter(measure=BEST, checkpoint="@2").to_dicts()
    assert line["std"] == pytest.approx(0.1 / 2**0.5)  # two values: their difference divided by √2
    half = 12.7062047 * line["std"] / 2**0.5  # Student's t with one degree of freedom
    assert (line["low"], line["high"]) == (pytest.approx(line["mean"] - half), 1.0)  # 1.49 is cut off


def test_what_was_chosen_on_validation_is_never_better_than_the_best(tmp_path: Path) -> None:
    """The best never falls from one checkpoint to the next, and at the end the choice is that of the run."""
    rng = random.Random(3)
    for _ in range(100):
        scores = [{"step": i, "validation": rng.randint(0, 9) / 9, "test": rng.randint(0, 9) / 9} for i in range(1, 13)]
        best_so_far = itertools.accumulate((row["validation"] for row in scores), max, initial=-1.0)
        history = pl.DataFrame([r | {"kept": r["validation"] > b} for r, b in zip(scores, best_so_far, strict=False)])
        found = [by_epoch.best(history, last) for last in (3, 6, 12)]
        assert all(at[CHOSEN] <= at[BEST] for at in found)
        for measure in (VALIDATION, BEST):
            assert all(a[measure] <= b[measure] for a, b in itertools.pairwise(found))
        kept, accuracy = None, -1.0
        for row in scores:  # as training continues
            if row["validation"] > accuracy:
                kept, accuracy = row["test"], row["validation"]
        assert (found[-1][VALIDATION], found[-1][CHOSEN]) == (accuracy, kept)


def test_at_the_end_it_is_the_evaluation_of_the_weights_that_were_kept(tmp_path: Path) -> None:
    """For a trained run, the same weights give the same number, and the best by epoch is another one."""
    data = preset_dataset("images", None, "tiny", tmp_path / "data")
    chosen = ExperimentSpec(
        preset="tiny", scheme="sinusoidal", set={"steps": 12, "validate_every_steps": 1, "lr_peak": 0.02}
    ).config("image")
    runs = open_registry(tmp_path / "results")
    done = trial.run_trial(experiment.of(chosen, data), runs, Execution(torch.device("cpu")))
    assert done.evaluation is not None
    result = done.run.read().outcome
    assert experiment.complete(chosen, data).steps == result.steps == 12
    found = means(lines(tmp_path / "results"))
    assert found[CHOSEN, "@12 steps"] == done.evaluation["overall"]["token_accuracy"]
    assert found[VALIDATION, "@12 steps"] == result.best_accuracy
    history = done.run.history()
    assert found[BEST, "@12 steps"] == history["test_token_accuracy"].max()
    assert (
        found[CHOSEN, "@6 steps"]
        == history["test_token_accuracy"][history["validation_token_accuracy"].head(6).arg_max()]
    )


def test_nothing_is_invented_where_the_history_has_no_test(tmp_path: Path) -> None:
    """An older run, a newer run, and a run that was resumed by a newer program and has test scores only of its second
    half.
    """
    put(tmp_path, "rope", V, None)
    put(tmp_path, "none", V, T)
    put(tmp_path, "alibi", V, [None, None, None, 0.5, 0.7, 0.95])
    of = {key: set(group["measure"]) for (key,), group in lines(tmp_path).group_by("scheme")}
    assert of == {"rope": {VALIDATION}, "none": {VALIDATION, CHOSEN, BEST}, "alibi": {VALIDATION, CHOSEN}}
    alibi = means(lines(tmp_path).filter(scheme="alibi"))
    assert (CHOSEN, "@3") not in alibi
    assert alibi[CHOSEN, "@6"] == 0.7


def of_the_paper(where: Path, scheme: str, value: float, seed: int = 1, **options: Any) -> None:
    """A run of 300 epochs. The best test score until 150 is `value`, and until 300 it is one per cent higher."""
    given: dict[str, Any] = {"preset": "paper", "source": "cifar-10", "rows": ALL_IMAGES, "per_epoch": 150}
    put(where, scheme, [0.9, 0.8], [value, value + 0.01], seed, **(given | options))


def test_beside_the_paper_stands_what_was_chosen_as_theirs(tmp_path: Path) -> None:
    """The paper has 92.95 ±0.0 and 94.42 ±0.1 for orthogonal-grid, only for `test, best by epoch` of CIFAR-10."""
    of_the_paper(tmp_path, "orthogonal-grid", 0.92)
    of_the_paper(tmp_path, "orthogonal-grid", 0.5, source="digits", fingerprint="a" * 64)
    of_the_paper(tmp_path, "orthogonal-grid", 0.5, shuffled=True, fingerprint="b" * 64)
    of_the_paper(tmp_path, "orthogonal-grid", 0.5, variant={"decay": 1})
    of_the_paper(tmp_path, "none", 0.5)
    put(tmp_path, "rope", V, None, source=None, preset="paper")
    found = lines(tmp_path, against="paper")
    theirs = found.filter(pl.col("paper_mean").is_not_null())
    assert theirs.select("scheme", "variant", "form", "measure", "checkpoint").rows() == [
        ("orthogonal-grid", "", "cifar-10", BEST, "@150"),
        ("orthogonal-grid", "", "cifar-10", BEST, "@300"),
    ]
    assert theirs["paper_mean"].to_list() == pytest.approx([0.9295, 0.9442])
    assert theirs["paper_difference"].to_list() == pytest.approx([-0.0095, -0.0142])
    text = rendering.markdown(tables(tmp_path, against="paper"), notes=True)
    assert text.count("[92.95 ±0.0]") == text.count("[94.42 ±0.1]") == text.count("dev scores") == 1


@pytest.mark.parametrize(
    ("options", "whole"),
    [
        ({}, True),
        ({"rows": {"train": 44_998, "validation": 5_002, "test": 10_000}}, True),  # equal images are held out together
        ({"rows": {"train": 1_000, "validation": 5_000, "test": 10_000}}, False),
        ({"preset": "small"}, False),
    ],
)
def test_the_paper_s_size_is_all_of_its_images(tmp_path: Path, options: dict[str, Any], whole: bool) -> None:
    for seed, value in enumerate((0.928, 0.929, 0.930)):
        of_the_paper(tmp_path, "orthogonal-grid", value, seed, **options)
    found, rows = lines(tmp_path, against="paper"), options.get("rows", ALL_IMAGES)
    assert dict(found.select("split", "rows").rows()) == {split: rows[split] for split in ("validation", "test")}
    line = found.filter(measure=BEST, checkpoint="@150").to_dicts()[0]
    assert line["paper_size"] is whole
    # half of the interval is 4.302653 × 0.001 / √3 = 0.0025, so 0.9295 is inside
    assert line["paper_in_interval"] is (True if whole else None)


def test_what_is_not_finished_or_has_no_history_is_left_out(tmp_path: Path) -> None:
    stopped = put(tmp_path, "none", V, T) / "run.json"
    replace(stopped, '"finished"', '"stopped"')
    with pytest.raises(ApeError, match="ape train"):
        lines(tmp_path)
    (put(tmp_path, "rope", V, T) / "history.parquet").unlink()
    put(tmp_path, "alibi", V, T)
    with left_out() as bad:
        found = VIEW.read(Registry(tmp_path), Options())
    assert set(found.lines["scheme"]) == {"alibi"}
    assert len(bad) == 1


def test_the_first_half_of_the_epochs_may_have_more_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Epochs of 5 and of 4 batches: the first one has more than half of the nine steps."""
    conftest.uneven_windows(monkeypatch)
    data = conftest.write(tmp_path / "data", "reverse", rows=(280, 40, 8))
    settings = {"epochs": 2, "batch_size": 100, "validate_every_epochs": 1}
    chosen = ExperimentSpec(preset="tiny", scheme="none", seed=8, set=settings).config("sequence")
    runs = open_registry(tmp_path / "results")
    trained = trial.run_trial(experiment.of(chosen, data), runs, Execution(torch.device("cpu"))).run.history()
    assert trained["step"].to_list() == [5, 9]
    assert means(lines(tmp_path / "results"))[VALIDATION, "@1"] == trained["validation_token_accuracy"][0]
