"""A sweep as a person watches it: a live table on a terminal, else a line for each thing that happens."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ape_cli.cli.console import accuracy_of, note

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ape_cli.core.executors import Event
    from ape_cli.sweep.planning import PlannedTrial

_ENDED = 6  # of the trials that have ended, how many are shown


@dataclass
class Line:
    """A trial that is to be done."""

    item: PlannedTrial
    state: str = "waiting"
    began: float = 0.0
    ended: float = 0.0
    told: dict[str, Any] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)
    error: str = ""

    def took(self, now: float) -> str:
        return clock((self.ended or now) - self.began) if self.began else ""

    def left(self, now: float) -> float | None:
        """Seconds, by its own pace; before that shows, as long as runs like it took."""
        step, steps = self.told.get("step", 0), self.told.get("steps", 0)
        first = self.told.get("first", step)
        if step > first:
            return (now - self.told["since"]) / (step - first) * (steps - step)
        return self.item.seconds


class Watch:
    """All trials of a sweep that are to be done, as they stand."""

    def __init__(self, items: list[PlannedTrial], slots: int | None) -> None:
        self.lines = {item.name: Line(item) for item in items}
        self.slots = slots

    def heed(self, event: Event) -> None:
        """Take in what happened."""
        line, now = self.lines[event.key], time.monotonic()
        if event.kind == "started":
            again = line.state == "running"
            line.state, line.began, line.told = "running", now, {}
            self._say(line, "starts again: its process or its node was lost" if again else "started")
        elif event.kind == "told" and "step" not in event.value:
            line.told = event.value  # it waits for another process
        elif event.kind == "told":
            first = {} if "first" in line.told else {"first": event.value["step"], "since": now}
            line.told = {key: value for key, value in line.told.items() if key != "waiting"} | first | event.value
        elif event.kind == "failed":
            line.ended = now
            line.state, line.error = "failed", event.value.text.strip()
            own = event.value.error
            self._say(line, f"failed: {own.what.splitlines()[0] if own else line.error.splitlines()[-1]}")
        else:
            line.ended = now
            line.state, line.result = event.value["state"], event.value
            test = line.result.get("test")
            score = "" if test is None else f", test {accuracy_of(line.item.config.kind)} {test:.2%}"
            self._say(line, f"{line.state} after {line.took(now)}{score}")

    def _say(self, line: Line, what: str) -> None:
        if not sys.stderr.isatty():
            note(f"[{self.count('finished')}/{len(self.lines)}] {line.item.name}: {what}")

    def count(self, state: str) -> int:
        return sum(line.state == state for line in self.lines.values())

    def of(self, *states: str) -> list[Line]:
        return [line for line in self.lines.values() if line.state in states]

    def time_left(self) -> float | None:
        """Seconds until all have ended; None while nothing tells how long a trial takes."""
        now = time.monotonic()
        known = [line.left(now) for line in self.of("running", "waiting")]
        sure = [seconds for seconds in known if seconds is not None]
        took = [line.result["seconds"] for line in self.of("finished") if line.result.get("trained")]
        usual = statistics.median(took) if took else (statistics.median(sure) if sure else None)
        if usual is None:
            return None
        at_once = max(1, min(self.slots or self.count("running"), len(known)))
        return sum(usual if seconds is None else seconds for seconds in known) / at_once

    def drawn(self) -> RenderableType:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        now = time.monotonic()
        table = Table(header_style="bold")
        for head in ("trial", "state", "step", "accuracy", "validation", "time", "left"):
            table.add_column(head, justify="left" if head in ("trial", "state") else "right", no_wrap=head != "trial")
        ended = sorted(self.of("finished", "failed", "elsewhere"), key=lambda line: line.ended)
        for line in [*ended[-_ENDED:], *self.of("running")]:
            table.add_row(*(Text(cell) for cell in self._cells(line, now)))
        left = self.time_left()
        states = ", ".join(
            f"{n} {s}" for s in ("finished", "running", "waiting", "failed", "elsewhere") if (n := self.count(s))
        )
        # on a short terminal the end of what is drawn is cut off
        return Group(Text(states + (f"; about {clock(left)} left" if left else "")), table)

    def _cells(self, line: Line, now: float) -> list[str]:
        told = line.told
        step = f"{told['step']:,}/{told['steps']:,}" if "step" in told else ""
        percent = ["" if told.get(key) is None else f"{told[key]:.2%}" for key in ("accuracy", "validation")]
        if line.state == "running":
            left = line.left(now)
            state = "waits for another" if told.get("waiting") else "running"
            return [line.item.name, state, step, *percent, line.took(now), "" if left is None else clock(left)]
        if line.result.get("test") is not None:
            percent = ["", f"test {line.result['test']:.2%}"]
        return [line.item.name, line.state, "", *percent, line.took(now), ""]

    def __rich__(self) -> RenderableType:
        return self.drawn()


@contextmanager
def watching(items: list[PlannedTrial], slots: int | None) -> Iterator[Watch]:
    watch = Watch(items, slots)
    if not sys.stderr.isatty():
        yield watch
        return
    from rich.console import Console
    from rich.live import Live

    with Live(watch, console=Console(stderr=True), refresh_per_second=2):
        yield watch


def trials(number: int) -> str:
    return f"{number} trial{'s' * (number != 1)}"


def clock(seconds: float) -> str:
    """
    >>> clock(59.6), clock(3725), clock(90_061)
    ('1:00', '1:02:05', '25:01:01')
    """
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
