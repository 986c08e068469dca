"""Stage 3: train as many runs of record as the time allows."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from ape_cli.core.errors import messages_to
from ape_cli.core.executors.local import Local, cores
from ape_cli.runs.registry import open_registry
from ape_cli.storage.paths import storage_path
from ape_cli.sweep import worker
from ape_cli.sweep.planning import PlannedTrial, prepare
from ape_cli.sweep.worker import shared_gpu
from benchmarks.gpu.cells import Pace, Planned, items, schedule_within
from benchmarks.gpu.clock import Clock
from benchmarks.gpu.packing import pack

Note = Callable[[str], None]
_STOPPING = 12.0  # seconds that runs need to store their state


@dataclass(frozen=True)
class Setting:
    """The settings of the stage."""

    preset: str | None  # None: that of each sweep
    precision: str
    device: str
    workers: int
    out: Path  # packed runs
    work: Path  # datasets, and runs with their weights
    recorded: Path  # results for which runs are made: existing runs are not trained again
    then: float = 0.0  # seconds of a later call, in which a run of this call may be finished

    @property
    def results(self) -> Path:
        """The results folder of the runs with their weights."""
        return self.work / "results"

    def waiting(self) -> list[PlannedTrial]:
        """The trials that are not finished, not running and not in `recorded`."""
        registry = open_registry(storage_path(str(self.results)))
        recorded = open_registry(storage_path(str(self.recorded)))
        trials = items(self.preset, self.precision, registry, storage_path(str(self.work / "datasets")), recorded)
        done = {run.name for run in recorded}
        return [item for item in trials if item.state not in ("finished", "running") and item.name not in done]


def describe(planned: list[Planned], left: list[PlannedTrial], setting: Setting, pace: Pace, note: Note) -> None:
    """Print the plan, with a line for each run."""
    note(f"{setting.workers} at a time on {setting.device}, {setting.precision}; pace: {pace.measured}")
    for run in planned:
        name = f"{run.item.data.folder.name:38} {run.item.config.scheme:16}"
        state = f" {run.item.variant}" + ("" if run.item.state == "new" else f" {run.item.state}")
        note(f"{_minutes(run.begin)} to {_minutes(run.end)}  {name} seed {run.item.config.seed}{state}")
    rest = sum(pace.seconds(item) for item in left) / 60
    alone = [pace.seconds(run.item) for run in planned] or [0.0]
    span = f"{min(alone):.0f} to {max(alone):.0f} s each alone"
    note(f"{len(planned)} runs, {span}; {len(left)} left: {rest:.0f} minutes")


def _minutes(seconds: float) -> str:
    """Seconds as MINUTES:SECONDS."""
    return f"{int(seconds) // 60:3}:{int(seconds) % 60:02}"


def record(setting: Setting, clock: Clock, pace: Pace, note: Note) -> int:
    """Train the runs that fit into the time, and pack the finished ones. -> the number of runs that were finished"""
    finished = 0
    setting.out.mkdir(parents=True, exist_ok=True)
    with shared_gpu(setting.device == "cuda") as shares:
        if setting.workers > 1 and setting.device == "cuda":
            note("the runs share the GPU" if shares else "the runs take turns on the GPU")
        while True:
            seconds = clock.left - _STOPPING
            planned, left = schedule_within(setting.waiting(), seconds + setting.then, setting.workers, pace)
            if not planned or seconds < pace.start_seconds:
                note(f"no further run fits into {max(0.0, seconds):.0f} s; {len(left)} runs are left")
                break
            describe(planned, left, setting, pace, note)
            done = _train([run.item for run in planned], setting, clock, note)
            finished += done
            if not done:
                break
    for line in pack(setting.results, setting.out):
        note(f"refused: {line}")
    return finished


def _train(chosen: list[PlannedTrial], setting: Setting, clock: Clock, note: Note) -> int:
    """Train runs until they are done or the time is over. -> the number of finished runs"""
    registry = open_registry(storage_path(str(setting.results)))
    with messages_to(note):
        chosen = prepare(chosen, registry, chosen[0].data.folder.parent)
    jobs = [worker.job(item, registry, setting.device, False) for item in chosen]
    engine = Local(setting.workers, threads=max(1, cores() // setting.workers))
    done, since = 0, {}
    with closing(engine.work(jobs)) as events:
        for event in events:
            if event.event_type == "started":
                since[event.key] = time.monotonic()
            elif event.event_type == "failed":
                note(f"failed: {event.key}: {str(event.value).strip().splitlines()[-1]}")
                with suppress(OSError):
                    (setting.out / f"failed-{event.key}.txt").write_text(str(event.value))
            elif event.event_type == "done":
                done += 1
                took = time.monotonic() - since[event.key]
                line = {"run": event.key, "seconds": round(took, 1), "test": event.value.get("test")}
                note(json.dumps(line))
                with (setting.out / "record.jsonl").open("a") as file:
                    file.write(json.dumps(line) + "\n")
                pack(setting.results, setting.out)
            if clock.left < _STOPPING:
                note("the time is over: running trials are stopped and stored")
                break
    return done
