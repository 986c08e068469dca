"""Weights & Biases, offline: every metric of a run is in the file that it would upload."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ape_cli.core.errors import RunError
from ape_cli.experiment import ExperimentSpec
from ape_cli.runs.registry import open_registry
from ape_cli.training.loggers import LoggedRun, opened
from ape_cli.training.loggers.wandb import WeightsAndBiases
from tests.conftest import ape

wandb = pytest.importorskip("wandb", reason="the extra `wandb` is not installed")
SIZES = ("--preset", "tiny", "--device", "cpu", "--set", "steps=20", "--set", "validate_every_steps=5")


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WANDB_PROJECT", "WANDB_DIR", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")


def records(path: Path) -> Iterator[Any]:
    """The records of an offline run: a log in the format of LevelDB, in blocks of 32 KiB, after 7 bytes of its own."""
    from wandb.proto import wandb_internal_pb2

    raw, at, part = path.read_bytes(), 7, b""
    while at + 7 <= len(raw):
        if (left := 2**15 - at % 2**15) < 7:
            at += left
            continue
        _, length, kind = struct.unpack("<IHB", raw[at : at + 7])
        part += raw[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # a whole record, or the last piece of one
            found = wandb_internal_pb2.Record()
            found.ParseFromString(part)
            part = b""
            yield found


def written(folder: Path) -> list[Any]:
    """The records of the only run in a folder, when its end is among them: a process of wandb's own writes the file."""
    from google.protobuf.message import DecodeError

    (path,) = folder.glob("wandb/offline-run-*/*.wandb")
    until, found = time.monotonic() + 60, []
    while not any(record.HasField("exit") for record in found) and time.monotonic() < until:
        time.sleep(0.05)
        with suppress(DecodeError):  # the last record is not complete yet
            found = list(records(path))
    return found


def ended(folder: Path) -> int:
    """The exit code of the only run in a folder."""
    (code,) = [record.exit.exit_code for record in written(folder) if record.HasField("exit")]
    return int(code)


def logged(folder: Path) -> tuple[Any, dict[int, dict[str, float]]]:
    """The description of the only run in a folder, and its metrics by step."""
    about, rows = None, {}
    for record in written(folder):
        if record.HasField("run"):
            about = record.run
        if record.HasField("history"):
            items = {"".join(i.nested_key) or i.key: json.loads(i.value_json) for i in record.history.item}
            rows[record.history.step.num] = {k: v for k, v in items.items() if not k.startswith("_")}
    return about, rows


def test_every_metric_is_logged(here: Path) -> None:
    """By the worker process of a sweep. `ape train` opens loggers in the same way."""
    ape("sweep", "--schemes", "none", "--tasks", "copy", "--log", "wandb", "--workers", "1", *SIZES)
    (run,) = open_registry("results")
    about, rows = logged(here / "results" / "runs" / run.name / "logs")
    assert (about.project, about.display_name) == ("ape", run.name)
    assert {item.key: json.loads(item.value_json) for item in about.config.update}["scheme"] == "none"
    assert list(rows) == [5, 10, 15, 20]
    for row in run.history().iter_rows(named=True):
        step = row.pop("step")
        assert {name: rows[step][name] for name in row} == pytest.approx(row)
    assert {"recent_loss", "recent_token_accuracy", "tokens_per_second"} <= set(rows[20])
    assert ended(here / "results" / "runs" / run.name / "logs") == 0


def test_a_failed_run_is_marked_as_failed(tmp_path: Path) -> None:
    run = LoggedRun("run", ExperimentSpec(preset="tiny", scheme="rope").config("sequence"), tmp_path, 40, ())
    with pytest.raises(ZeroDivisionError), opened([WeightsAndBiases], run):
        raise ZeroDivisionError
    assert ended(tmp_path) == 1


def test_a_resumed_run_continues_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    ids = []
    for step in (0, 20, 0):
        logger = WeightsAndBiases(
            LoggedRun("run", ExperimentSpec(preset="tiny", scheme="rope").config("sequence"), tmp_path, 40, (), step)
        )
        ids.append(logger.run.id)
        assert logger.run.project == "mine"
        logger.log(step + 10, {"recent_loss": 1.0})
        logger.close()
    assert ids[0] == ids[1] != ids[2]  # the last one is of a run that was overwritten


def test_what_it_says_is_an_error_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**given: Any) -> None:
        raise wandb.errors.UsageError("No API key configured.")

    monkeypatch.setattr(wandb, "init", refuse)
    with pytest.raises(RunError, match=r"No API key configured[\s\S]*wandb login"):
        WeightsAndBiases(
            LoggedRun("run", ExperimentSpec(preset="tiny", scheme="rope").config("sequence"), tmp_path, 40, ())
        )
