"""Aggregation: means, deviations, what is underlined, what is never averaged, and every format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ape_cli import tasks
from ape_cli.core.errors import ApeError, UsageError, left_out
from ape_cli.experiment import ExperimentSpec
from ape_cli.reports import aggregation, tables
from ape_cli.reports.views import Options
from ape_cli.runs import config
from ape_cli.runs.registry import Registry
from tests.conftest import ape
from tests.registered import put_evaluation, replace, write


def add(
    where: Path,
    scheme: str,
    value: float,
    seed: int = 1,
    *,
    task: str = "reverse",
    order: str | None = None,
    fingerprint: str = "f" * 64,
    preset: str = "small",
    variant: dict[str, Any] | None = None,
    evaluated: str | None = None,
    name: str = "reverse-small",
    steps: int | None = None,
    full_size: bool = False,
    source: str | None = None,
    shuffled: bool = False,
    given: dict[str, Any] | None = None,
) -> Path:
    """Registers and evaluates a run without training it, and returns its folder.

    With a `source`, the run is on images of this source. `given`: parameters of the task.
    """
    if source:
        task, name = "images", f"images-{source}" if name == "reverse-small" else name
        parameters = {"source": source, "sha256": "0" * 64} | ({"shuffled": True} if shuffled else {})
    else:
        parameters = tasks.make(task, order, **given or {}).parameters if full_size else given or {}
    variant, kind = variant or {}, "image" if source else "sequence"
    settings = variant | ({"steps": steps} if steps and "epochs" not in variant else {})
    options = {name: value for name, value in settings.items() if name not in config.KINDS[kind].model_fields}
    fields = {name: value for name, value in settings.items() if name not in options}
    settled = ExperimentSpec(preset=preset, scheme=scheme, seed=seed, set=fields).config(kind)
    settled = settled.model_copy(update={"scheme_options": options})  # also those that the scheme does not have
    parts = [task, order, scheme, str(seed), settled.digest(fingerprint)]
    name_of_run = "-".join(part for part in parts if part)
    folder = where / "runs" / name_of_run
    (folder / "eval").mkdir(parents=True, exist_ok=True)
    about = {
        "version": 2,
        "run": name_of_run,
        "status": "finished",
        "config": settled.model_dump(),
        "variant": variant,
        "dataset": {
            "task": task,
            "order": order,
            "structure": "grid(2)" if source else "tree(2)" if order else "seq",
            "name": name,
            "path": f"datasets/{name}",
            "fingerprint": fingerprint,
            "rows": {"train": 10_000, "validation": 1_000, "test": 1_000},
            "seed": 1,
            "parameters": parameters,
            "vocabulary": ["<pad>", "<sos>", "<eos>", "a"],
            "image": [8, 8, 1] if source else None,
            "mean_size": 5.0,
            "mean_tokens": 5.0,
            "tagged": False,
            "largest": {},
        },
        "versions": {},
        "commit": None,
        "device": "cpu",
        "processor": None,
        "threads": 1,
        "processes": 1,
        "started": "2026-01-31T00:00:00+00:00",
        "result": {
            "steps": settled.steps or 1,
            "best_step": 1,
            "best_accuracy": value,
            "seconds": 1.0,
            "tokens_per_second": 1.0,
            "parameters": 1,
        },
    }
    write(folder / "run.json", about)
    found = {
        "dataset": name if evaluated is None else "longer",
        "fingerprint": evaluated or fingerprint,
        "split": "test",
        "decode": "teacher",
        "overall": {
            "token_accuracy": value,
            "exact_match": value / 2,
            "cross_entropy": 1 - value,
            "rows": 1_000,
            "tokens": 10_000,
        },
    }
    if task in tasks.names() and (ops := tasks.load(task).ops):
        found["by_op"] = [found["overall"] | {"op": ops[0]}]
    put_evaluation(folder, found)
    return folder


def lines(where: Path, **options: Any) -> list[dict[str, Any]]:
    return aggregation.lines(Registry(where), Options(**options)).to_dicts()


def tables_of(where: Path, **options: Any) -> list[tables.Table]:
    return tables.tables(aggregation.lines(Registry(where), Options(**options)))


def test_conditions_select_runs(tmp_path: Path) -> None:
    """Two sweeps in one folder, with other steps."""
    for steps, value in ((400, 0.5), (800, 0.75)):
        add(tmp_path, "rope", value, variant={"steps": steps})
    report = ("report", "--results", str(tmp_path), "--format", "csv", "--filter")
    assert "rope,steps=400," in ape(*report, "steps=400")[0]
    assert "steps=800" not in ape(*report, "steps=400")[0]
    assert "no run in" in ape(*report, "steps=1", code=1)[1]


def test_mean_and_deviation_over_seeds(tmp_path: Path) -> None:
    for seed, value in enumerate((0.90, 0.92, 0.97)):
        add(tmp_path, "rope", value, seed)
    (line,) = lines(tmp_path)
    assert line["mean"] == pytest.approx(0.93)
    assert line["std"] == pytest.approx(((0.03**2 + 0.01**2 + 0.04**2) / 2) ** 0.5)
    assert line["seeds"] == 3
    assert (line["task"], line["order"], line["scheme"], line["preset"]) == ("reverse", None, "rope", "small")


def test_the_interval_by_hand(tmp_path: Path) -> None:
    """Half of the interval is 4.302653 s / √3, with s² = (0.03² + 0.01² + 0.04²) / 2 = 0.0013: 0.089567.

    The interval of a share stays between 0 and 1. Cross-entropy has no such limit.
    """
    for seed, difference in enumerate((-0.03, -0.01, 0.04)):
        add(tmp_path / "middle", "rope", 0.5 + difference, seed)
        add(tmp_path / "top", "rope", 0.95 + difference, seed)
        add(tmp_path / "bottom", "rope", 0.05 + difference, seed)
    add(tmp_path / "one", "none", 0.5)
    (middle,), (top,), (bottom,) = (lines(tmp_path / name) for name in ("middle", "top", "bottom"))
    assert (middle["low"], middle["high"]) == pytest.approx((0.5 - 0.089567, 0.5 + 0.089567), abs=1e-6)
    assert (top["low"], top["high"]) == (pytest.approx(0.95 - 0.089567, abs=1e-6), 1.0)
    assert (bottom["low"], bottom["high"]) == (0.0, pytest.approx(0.05 + 0.089567, abs=1e-6))
    (one,) = lines(tmp_path / "one")
    assert (one["low"], one["high"]) == (None, None)  # one seed


def test_only_seeds_are_averaged(tmp_path: Path) -> None:
    """Other settings, other data, other presets and other evaluated data have cells of their own."""
    add(tmp_path, "rope", 0.9)
    add(tmp_path, "rope", 0.5, variant={"decay": 0.98})
    add(tmp_path, "rope", 0.6, fingerprint="a" * 64)
    add(tmp_path, "rope", 0.7, preset="tiny")
    add(tmp_path, "rope", 0.8, evaluated="b" * 64)
    found = lines(tmp_path)
    assert len(found) == 5, found
    assert all(line["seeds"] == 1 for line in found)
    small, tiny = tables_of(tmp_path)
    assert [row for row, _ in small.rows] == ["rope", "rope (decay=0.98)"]
    assert len(small.columns) == len(set(small.columns)) == 3
    assert any(column.endswith("on longer") for column in small.columns)
    assert tiny.columns == ["reverse"]


def test_a_preset_that_has_changed_since_is_another_configuration(tmp_path: Path) -> None:
    """Both runs had no variant when they were made, but their steps differ, so they are not two seeds of one
    configuration.
    """
    add(tmp_path, "rope", 0.5, 1, steps=400)
    add(tmp_path, "rope", 0.9, 2)
    assert sorted(line["mean"] for line in lines(tmp_path)) == [0.5, 0.9]
    (shown,) = tables_of(tmp_path)
    assert [row.split(" #")[0] for row, _ in shown.rows] == ["rope", "rope"]
    assert len({row for row, _ in shown.rows}) == 2


def test_nothing_to_report_explains_what_to_run_or_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(ApeError, match=r"nothing to report[\s\S]*ape train"):
        lines(tmp_path)
    add(tmp_path, "rope", 0.9)
    with pytest.raises(ApeError, match=r"token_accuracy, teacher, test, small"):
        lines(tmp_path, decode="greedy")
    with pytest.raises(UsageError, match="unknown metric"):
        lines(tmp_path, metric="bleu")


def test_unreadable_runs_are_named_and_the_others_reported(tmp_path: Path) -> None:
    add(tmp_path, "rope", 0.9)
    add(tmp_path, "none", 0.9)
    damaged = next((tmp_path / "runs").glob("*none*/eval/*.json"))
    damaged.write_text(json.dumps({"overall": None}))
    (tmp_path / "runs" / "half").mkdir()
    with left_out() as bad:
        found = aggregation.lines(Registry(tmp_path), Options())
    assert found["scheme"].to_list() == ["rope"]
    assert len(bad) == 2
    assert bad[0].startswith("half: ")
    assert "was altered" in bad[1]


def test_images_have_a_table_of_their_own(tmp_path: Path) -> None:
    """It is separate from that of tasks on grids, although the structure is the same. Columns are named by source."""
    for scheme, value in (("orthogonal-grid", 0.9), ("sinusoidal", 0.8)):
        add(tmp_path, scheme, value, source="digits")
        add(tmp_path, scheme, value - 0.1, source="digits", shuffled=True, fingerprint="e" * 64)
        add(tmp_path, scheme, value - 0.2, source="cifar-10", fingerprint="d" * 64)
    add(tmp_path, "sinusoidal", 0.5, task="grid-rotate", name="grid-rotate")
    about = next((tmp_path / "runs").glob("grid-rotate*/run.json"))
    replace(about, '"structure": "seq"', '"structure": "grid(2)"')
    grids, shown = tables_of(tmp_path)
    assert (grids.title, grids.columns) == ("Tasks on grid(2), token accuracy", ["grid-rotate"])
    assert (shown.title, shown.columns) == (
        "Images, top-1 accuracy",
        ["images/cifar-10", "images/digits", "images/digits (shuffled)"],
    )
    assert [row for row, _ in shown.rows] == ["sinusoidal", "orthogonal-grid"]
    entropy = tables_of(tmp_path, metric="cross_entropy")[1]
    assert (entropy.title, entropy.unit) == ("Images, cross-entropy", "nats an image")
