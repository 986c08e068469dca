"""What `ape sweep` prints: its plan, its progress (bars on a terminal, otherwise lines), and its end."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ape_cli.cli._app import on_stop
from ape_cli.cli.console import (
    accuracy_of,
    clock,
    draw,
    print_hint,
    print_json,
    print_note,
    print_result,
    print_table,
)
from ape_cli.core.errors import ApeError
from ape_cli.core.escaping import one_line
from ape_cli.core.numbers import counted
from ape_cli.core.slow_steps import slow_step

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from ape_cli.core.executors import Event
    from ape_cli.runs.registry import Registry
    from ape_cli.sweep.planning import PlannedTrial
    from ape_cli.sweep.stages import GroupChoice

_STATES = ("finished", "running", "stopped", "waiting", "failed")
_REPORT_FIRST, _REPORT_EVERY = 10.0, 60.0  # seconds until the first line about a running trial, and between two


@dataclass
class Line:
    """A trial of the sweep that is not finished yet, with its progress. Times are in seconds of a monotonic clock."""

    item: PlannedTrial
    state: str = "waiting"
    began: float = 0.0
    due: float = 0.0  # when the next line about the running trial is printed
    progress: dict[str, Any] = field(default_factory=dict)  # what the trial has reported
    result: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    bar: TaskID | None = None

    def words(self, now: float) -> str:
        """What the running trial does: its step, its loss, and the time left."""
        reported = self.progress
        if "step" not in reported:
            waits = reported.get("waiting")
            return "waits for another process" if waits else f"running for {clock(now - self.began)}"
        step, steps, parts = reported["step"], reported["steps"], [f"loss {reported['loss']:.4f}"]
        if step == steps:
            parts.append("evaluating")
        elif done := step - reported["first"]:
            parts.append(f"about {clock((now - reported['since']) / done * (steps - step))} left")
        return f"step {step:,}/{steps:,}, {', '.join(parts)}"


class Watch:
    """The progress of all trials of a sweep that were not finished when it started.

    The start and the end of a trial are a line. `bars` show the running trials on a terminal; without them, there is a
    line about each after ten seconds, and then once a minute.
    """

    def __init__(self, items: list[PlannedTrial], bars: Progress | None = None, *, tuning: bool = False) -> None:
        """Start with all trials waiting.

        `tuning`: a setting is chosen among the trials, so their scores on the test split are not shown.
        """
        self.tuning, self.bars = tuning, bars
        self.lines = {item.name: Line(item) for item in items}
        self.all = bars.add_task("trials", total=len(items), accuracy="") if bars else None
        self.stopping = False

    def handle_event(self, event: Event) -> None:
        """Update the progress with an event of the executor."""
        line, now = self.lines[event.key], time.monotonic()
        if event.event_type == "started":
            again = line.state == "running"
            line.state, line.began, line.due, line.progress = "running", now, now + _REPORT_FIRST, {}
            self._print(line, "starts again, because its process or its node was lost" if again else "started")
        elif event.event_type == "progress" and "step" in event.value:
            line.progress = {"first": event.value["step"], "since": now} | line.progress | event.value
        elif event.event_type == "progress":
            line.progress = event.value  # the trial waits for another process
        elif event.event_type == "failed":
            line.state, line.error = "failed", str(event.value).strip()
            self._print(line, f"failed: {line.error.splitlines()[0 if isinstance(event.value, ApeError) else -1]}")
        else:
            line.state, line.result = "finished", event.value
            test = None if self.tuning else line.result.get("test")
            score = "" if test is None else f", test {accuracy_of(line.item.config.modality)} {test:.2%}"
            self._print(line, f"finished after {clock(now - line.began)}{score}")
        if self.bars is not None:
            self._draw(line, self.bars)
        else:
            for running in (other for other in self.of("running") if now >= other.due):
                running.due = now + _REPORT_EVERY
                self._print(running, running.words(now))

    def _draw(self, line: Line, bars: Progress) -> None:
        """Update the bar of a trial, which is there while the trial runs, and that of all trials."""
        if line.state == "running":
            if line.bar is None:
                line.bar = bars.add_task(one_line(line.item.name), total=None, accuracy="")
            reported = line.progress
            scores = {"validation": reported.get("validation"), "training": reported.get("accuracy")}
            accuracy = next((f"{split} {value:.2%}" for split, value in scores.items() if value is not None), "")
            bars.update(line.bar, completed=reported.get("step", 0), total=reported.get("steps"), accuracy=accuracy)
        elif line.bar is not None:
            bars.remove_task(line.bar)
        assert self.all is not None
        bars.update(self.all, completed=len(self.lines) - len(self.of("running", "waiting")))

    def _print(self, line: Line, what: str) -> None:
        """Print a line about a trial."""
        print_note(f"[{len(self.of('finished'))}/{len(self.lines)}] {line.item.name}: {what}")

    def of(self, *states: str) -> list[Line]:
        """The trials in some states."""
        return [line for line in self.lines.values() if line.state in states]

    def stop(self, number: int, frame: Any) -> None:
        """Handle a signal to stop: say so at once, because the running trials end only after their current steps.

        A second signal ends them at once.
        """
        text, self.stopping = "ending at once …" if self.stopping else "stopping after the current steps …", True
        with suppress(RuntimeError):  # a line was being written
            print_note(text)
        raise KeyboardInterrupt


@contextmanager
def watching(items: list[PlannedTrial], *, tuning: bool = False) -> Iterator[Watch]:
    """Show the progress of trials within a `with` block. For `tuning`, see `Watch`."""
    with ExitStack() as shown:
        bars = shown.enter_context(_bars()) if sys.stderr.isatty() and items else None
        watch = Watch(items, bars, tuning=tuning)
        shown.enter_context(on_stop(watch.stop))
        try:
            yield watch
        except (Exception, KeyboardInterrupt):  # the same command resumes the running trials
            for line in watch.of("running"):
                line.state = "stopped"
            print_note(", ".join(f"{n} {state}" for state in _STATES if (n := len(watch.of(state)))))
            raise


def _bars() -> Progress:
    """The bars of running trials, which disappear at the end."""
    from rich import progress
    from rich.console import Console

    text, counts = progress.TextColumn("{task.description}", markup=False), progress.MofNCompleteColumn()
    left, accuracy = progress.TimeRemainingColumn(), progress.TextColumn("{task.fields[accuracy]}")
    console = Console(stderr=True)
    return progress.Progress(text, counts, left, accuracy, console=console, transient=True, refresh_per_second=2)


_TAIL = 12  # number of lines of a failed trial's log that are printed


def print_plan(items: list[PlannedTrial], slots: int | None, as_json: bool, old: Collection[str] = ()) -> None:
    """Print what a sweep would do, for --dry-run. `old`: names of runs with older code than the present one."""
    todo = [item for item in items if item.state != "finished"]
    estimates = [item.seconds for item in todo if item.seconds is not None]
    at_once = min(slots, max(1, len(todo))) if slots else None
    total = sum(estimates) / at_once if at_once and len(estimates) == len(todo) else None
    later = sum(item.state == "open" for item in items)
    lines = [
        {
            "run": item.name,
            "state": item.state,
            "variant": item.variant,
            "dataset": str(item.data.folder),
            "dataset_missing": item.data.missing,
            "seconds": item.seconds,
        }
        for item in items
    ]
    if as_json:
        print_json({"trials": lines, "to_do": len(todo), "at_once": at_once, "seconds": total})
        return
    rows = []
    to_do = {"finished": "nothing", "new": "train", "running": "wait for another process"}
    for item in (item for item in items if item.state != "open"):
        done = item.state == "finished"
        missing = " (to generate)" if item.data.missing and not done else ""
        took = "" if done else "?" if item.seconds is None else clock(max(1.0, item.seconds))
        what = to_do.get(item.state, f"resume ({item.state})") + (" (older code)" if item.name in old else "")
        rows.append([item.name, item.variant, what, f"{item.data.folder}{missing}", took])
    print_table(["run", "set", "to do", "dataset", "about"], rows)
    guess = "time unknown" if total is None else f"about {clock(max(1.0, total))}, estimated from earlier runs"
    if len(estimates) < len(todo):
        guess += ", as no earlier run has the same model"
    many = f"{at_once} at once" if at_once else "as many at once as there is room for"
    print_result(f"{counted(len(items), 'trial')}, {len(todo)} to do, {many}: {guess if todo else 'nothing to do'}")
    if later:
        start = "starts" if later == 1 else "start"
        print_result(f"{later} of these {start} once settings are chosen, and are not in the table")


def print_end(
    items: list[PlannedTrial],
    lines: dict[str, Line],
    registry: Registry,
    as_json: bool,
    choices: list[GroupChoice] | None = None,
) -> None:
    """Print the final state of all trials, and the end of the log of each that failed.

    `choices`: the settings that tuning has chosen, None without tuning. Only these have their test scores printed, so
    that nobody chooses by them.
    """
    from ape_cli.runs.record import settings_text
    from ape_cli.sweep import worker

    ends: list[dict[str, Any]] = []
    for line in (lines.get(item.name) or Line(item, item.state) for item in items):
        ends.append({"run": line.item.name, "state": line.state, "trained": bool(line.result.get("trained"))})
        ends[-1] |= {"error": line.error} if line.error else {}
    if as_json:
        chosen = [
            {name: getattr(choice, name) for name in ("group", "setting", "trials", "seeds")}
            | {"validation": choice.validation._asdict(), "runs": [item.name for item in choice.runs]}
            for choice in choices or ()
        ]
        print_json({"trials": ends} | ({} if choices is None else {"chosen": chosen}))
    for line in (line for line in lines.values() if line.state == "failed"):
        path = worker.log_of(registry.folder, line.item.name)
        log = path.read_text(encoding="utf-8") if path.exists() else line.error
        print_note("")
        print_note(f"failed: {line.item.name}" + (f" ({path})" if path.exists() else ""))
        for text in log.strip().splitlines()[-_TAIL:]:
            print_note(f"  {text}")
    if not as_json:
        finished = {end["run"] for end in ends if end["state"] == "finished"}
        if choices:
            heads = ["group", "chosen", "settings tried", "seeds", "validation accuracy"]
            rows = [
                [c.group, settings_text(c.setting), str(c.trials), str(len(c.seeds)), f"{c.validation.accuracy:.2%}"]
                for c in choices
            ]
            print_table(heads, rows, numbers=heads[2:])
        if choices is not None:
            finished &= {item.name for choice in choices for item in choice.runs}
        _print_scores(sorted(finished), registry, "" if choices is None else " --best-by validation")
        count = Counter(end["state"] for end in ends)
        trained = sum(end["trained"] for end in ends)
        print_result(
            f"{counted(len(ends), 'trial')}: {', '.join(f'{n} {s}' for s, n in count.items())}; {trained} trained now"
        )


def _print_scores(runs: list[str], registry: Registry, selection: str) -> None:
    """Print the table of the scores on the test split, if a run has one. `selection`: an option of `ape report`."""
    from ape_cli.reports import document, rendering
    from ape_cli.reports.views import DEFAULT, Options, load

    try:
        with slow_step("making the table of scores"):
            scores = document.read(registry.only(runs), load(DEFAULT), Options(own=True))
    except ApeError as error:  # a damaged run, for example; `ape report` says more
        print_note(f"no table of scores: {error.summary}")
        return
    if scores.tables:
        draw(rendering.rich(scores.tables))
        print_hint(f"`ape report{selection}` shows this table again; --interval, --metric and --plots show more")
