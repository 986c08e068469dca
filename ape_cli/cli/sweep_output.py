"""What `ape sweep` prints: its plan, its progress (a live table on a terminal, otherwise lines), and its end."""

from __future__ import annotations

import statistics
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ape_cli.cli._app import on_stop, with_results
from ape_cli.cli.console import (
    Repeated,
    Visible,
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
from ape_cli.core.slow_steps import slow_step

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    from ape_cli.core.executors import Event
    from ape_cli.runs.registry import Registry
    from ape_cli.sweep.planning import PlannedTrial
    from ape_cli.sweep.stages import GroupChoice

_CTRL_C = 3  # characters that `^C` and the cursor need at the end of a line
_ENDED = 6  # number of trials that have ended and are shown
_STOPPING, _ENDING = "stopping after the present steps …", "ending at once …"
_STATES = ("finished", "running", "stopped", "waiting", "failed", "elsewhere")


@dataclass
class Line:
    """A trial of the sweep that is not finished yet, with its progress. Times are in seconds of a monotonic clock."""

    item: PlannedTrial
    state: str = "waiting"
    began: float = 0.0
    ended: float = 0.0
    progress: dict[str, Any] = field(default_factory=dict)  # what the trial has reported
    result: dict[str, Any] = field(default_factory=dict)
    error: str = ""

    def took(self, now: float) -> str:
        """The time since the trial began, as text; empty before it begins."""
        return clock((self.ended or now) - self.began) if self.began else ""

    def left(self, now: float) -> float | None:
        """The seconds that are left, from the trial's own pace, or at first from similar runs; None if unknown."""
        reported = self.progress
        if "step" in reported and (done := reported["step"] - reported["first"]):
            return (now - reported["since"]) / done * (reported["steps"] - reported["step"])
        from ape_cli.sweep.durations import SIMILAR

        estimate = self.item.estimate  # the pace of the other trials is better than the size of the model
        return estimate.seconds if estimate and estimate.basis == SIMILAR else None

    def words(self, now: float) -> str:
        """What the running trial does, for a line: its step, its loss, and the time left."""
        reported, left = self.progress, self.left(now)
        if "step" not in reported:
            return "waits for another process" if reported.get("waiting") else f"running for {self.took(now)}"
        ends = "evaluating" if reported["step"] == reported["steps"] else left and f"about {clock(left)} left"
        parts = f"step {reported['step']:,}/{reported['steps']:,}", f"loss {reported['loss']:.4f}", ends
        return ", ".join(part for part in parts if part)

    def cells(self, now: float) -> list[str]:
        """The row of the trial in the live table: what it is, its state, its best known score, and its time."""
        reported, config = self.progress, self.item.config
        variant = f" ({self.item.variant})" if self.item.variant else ""
        name = f"{self.item.data.folder.name} {config.scheme}{variant}"
        test, validation, training = self.result.get("test"), reported.get("validation"), reported.get("accuracy")
        scores = {"test": test, "validation": validation, "training": training}
        score = next((f"{split} {value:.2%}" for split, value in scores.items() if value is not None), "")
        state, spent = self.state, f"took {self.took(now)}" if self.began else ""
        if state == "running":
            left = self.left(now)
            state = f"{reported['step']:,}/{reported['steps']:,}" if "step" in reported else state
            state = "waits for another process" if reported.get("waiting") else state
            spent = self.took(now) if left is None else f"{clock(left)} left"
        return [name, str(config.seed), state, score, spent]


class Watch:
    """The progress of all trials of a sweep that were not finished when it started."""

    def __init__(self, items: list[PlannedTrial], slots: int | None, *, tuning: bool = False) -> None:
        """Start with all trials waiting. `slots`: the number of trials at once, None if unknown.

        `tuning`: a setting is chosen among the trials, so their scores on the test split are not shown.
        """
        self.tuning = tuning
        self.lines = {item.name: Line(item) for item in items}
        self.slots = slots
        self.stopping = False

    def handle_event(self, event: Event) -> None:
        """Update the progress with an event of the executor."""
        line, now = self.lines[event.key], time.monotonic()
        if event.kind == "started":
            again = line.state == "running"
            line.state, line.began, line.progress = "running", now, {}
            self._say(line, "starts again, because its process or its node was lost" if again else "started")
        elif event.kind == "progress" and "step" not in event.value:
            line.progress = event.value  # the trial waits for another process
        elif event.kind == "progress":
            first = {"first": event.value["step"], "since": now}
            line.progress = first | line.progress | {"waiting": False} | event.value
        elif event.kind == "failed":
            line.ended, line.state, line.error = now, "failed", str(event.value).strip()
            self._say(line, f"failed: {line.error.splitlines()[0 if isinstance(event.value, ApeError) else -1]}")
        else:
            line.ended, line.state = now, event.value["state"]
            line.result = event.value | ({"test": None} if self.tuning else {})
            test = line.result.get("test")
            score = "" if test is None else f", test {accuracy_of(line.item.config.kind)} {test:.2%}"
            self._say(line, f"{line.state} after {line.took(now)}{score}")

    def print_progress(self) -> None:
        """Print a line about each running trial, if there is no live table."""
        for line in self.of("running"):
            self._say(line, line.words(time.monotonic()))

    def _say(self, line: Line, what: str) -> None:
        """Print a line about a trial, if there is no live table."""
        if not sys.stderr.isatty():
            print_note(f"[{len(self.of('finished'))}/{len(self.lines)}] {line.item.name}: {what}")

    def of(self, *states: str) -> list[Line]:
        """The trials in some states."""
        return [line for line in self.lines.values() if line.state in states]

    def time_left(self) -> float | None:
        """The estimated seconds until all trials have ended; None if no trial gives an estimate."""
        now = time.monotonic()
        known = [line.left(now) for line in self.of("running", "waiting")]
        sure = [seconds for seconds in known if seconds is not None]
        took = [line.result["seconds"] for line in self.of("finished") if line.result.get("trained")]
        if not took and not sure:
            return None
        usual = statistics.median(took or sure)
        at_once = max(1, min(self.slots or len(self.of("running")), len(known)))
        return sum(usual if seconds is None else seconds for seconds in known) / at_once

    @property
    def states(self) -> str:
        """The number of trials in each state, in words."""
        return ", ".join(f"{n} {state}" for state in _STATES if (n := len(self.of(state))))

    def stop(self, number: int, frame: Any) -> None:
        """Handle a signal to stop: say so at once, because the running trials end only after their present steps.

        A second signal ends them at once.
        """
        text, self.stopping = _ENDING if self.stopping else _STOPPING, True
        if not sys.stderr.isatty():
            with suppress(RuntimeError):  # a line was being written
                print_note(text)
        raise KeyboardInterrupt

    def interrupt(self) -> None:
        """Mark the running trials as stopped. The same command resumes them."""
        for line in self.of("running"):
            line.state, line.ended = "stopped", time.monotonic()

    def drawn(self) -> RenderableType:
        """The live table. It fits a terminal of 80 columns."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        now = time.monotonic()
        table = Table(header_style="bold", box=None, padding=(0, 2, 0, 0))
        for head in ("trial", "seed", "state", "accuracy", "time"):
            table.add_column(head, justify="right" if head == "seed" else "left", no_wrap=head != "trial")
        ended = sorted(self.of("finished", "failed", "elsewhere", "stopped"), key=lambda line: line.ended)
        for line in [*ended[-_ENDED:], *self.of("running")]:
            table.add_row(*(Text(cell) for cell in line.cells(now)))
        left = None if self.stopping or self.of("stopped") else self.time_left()
        more = f"; about {clock(left)} left" if left else ""
        more = f"; {_STOPPING}" if self.stopping and self.of("running") else more
        # the summary comes first, because a short terminal cuts off the end
        return Group(Text(self.states + more), table)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        """The live table, for rich. It leaves room at the right for the `^C` that a terminal shows after Ctrl-C."""
        yield from console.render(self.drawn(), options.update_width(max(1, options.max_width - _CTRL_C)))


@contextmanager
def watching(items: list[PlannedTrial], slots: int | None, *, tuning: bool = False) -> Iterator[Watch]:
    """Show the progress of trials within a `with` block: in a live table on a terminal, else in lines.

    For `tuning`, see `Watch`.
    """
    watch = Watch(items, slots, tuning=tuning)
    with ExitStack() as shown:
        if not sys.stderr.isatty():
            shown.callback(Repeated(watch.print_progress).stop)
        elif items:
            from rich.console import Console
            from rich.live import Live

            shown.enter_context(Live(Visible(watch), console=Console(stderr=True), refresh_per_second=2))
        shown.enter_context(on_stop(watch.stop))
        try:
            yield watch
        except (Exception, KeyboardInterrupt):  # the last table that is drawn shows the trials as stopped
            watch.interrupt()
            if not sys.stderr.isatty():
                print_note(watch.states)
            raise


def trials(number: int) -> str:
    """A number of trials in words."""
    return f"{number} trial{'s' * (number != 1)}"


_TAIL = 12  # number of lines of a failed trial's log that are printed


def print_plan(items: list[PlannedTrial], slots: int | None, as_json: bool, old: Collection[str] = ()) -> None:
    """Print what a sweep would do, for --dry-run. `old`: names of runs with older code than the present one."""
    from ape_cli.sweep.durations import OTHERS, SIMILAR, SIZE

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
            "estimated_from": item.estimate and item.estimate.basis,
        }
        for item in items
    ]
    if as_json:
        print_json({"trials": lines, "to_do": len(todo), "at_once": at_once, "seconds": total})
        return
    rows = []
    to_do = {"finished": "nothing", "new": "train", "running": "wait for another process"}
    for item in (item for item in items if item.state != "open"):
        missing = " (to generate)" if item.data.missing and item in todo else ""
        took = "" if item not in todo else "?" if item.seconds is None else clock(max(1.0, item.seconds))
        what = to_do.get(item.state, f"resume ({item.state})") + (" (older code)" if item.name in old else "")
        rows.append([item.name, item.variant, what, f"{item.data.folder}{missing}", took])
    print_table(["run", "set", "to do", "dataset", "about"], rows)
    # the least sure basis of the estimates
    bases = {item.estimate.basis for item in todo if item.estimate}
    basis = next((f"{other} (usually within a factor of 3)" for other in (SIZE, OTHERS) if other in bases), SIMILAR)
    guess = "time unknown" if total is None else f"about {clock(max(1.0, total))}, estimated from {basis}"
    if len(estimates) < len(todo):
        guess += ", as no registered run has the same model and this machine has no GPU"
    many = f"{at_once} at once" if at_once else "as many at once as there is room for"
    print_result(f"{trials(len(items))}, {len(todo)} to do, {many}: {guess if todo else 'nothing to do'}")
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
        print_result(f"{trials(len(ends))}: {', '.join(f'{n} {s}' for s, n in count.items())}; {trained} trained now")


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
        again = with_results(f"report{selection}", registry.folder)
        print_hint(f"`{again}` shows this table again; --interval, --metric and --plots show more")
