"""What `ape sweep` prints about all trials: the plan before it starts, and states and scores at its end."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from ape_cli.cli.console import answer, draw, hint, note, print_table, say
from ape_cli.cli.sweep_table import clock, trials
from ape_cli.core.errors import ApeError

if TYPE_CHECKING:
    from ape_cli.cli.sweep_table import Line
    from ape_cli.runs.registry import Registry
    from ape_cli.sweep.planning import PlannedTrial

_TAIL = 12  # number of lines of a failed trial's log that are printed


def print_plan(items: list[PlannedTrial], slots: int | None, as_json: bool, old: Collection[str] = ()) -> None:
    """Print what a sweep would do, for --dry-run. `old`: names of runs with older code than the present one."""
    todo = [item for item in items if item.state != "finished"]
    known = [item.seconds for item in todo if item.seconds is not None]
    at_once = min(slots, max(1, len(todo))) if slots else None
    total = sum(known) / at_once if at_once and len(known) == len(todo) else None
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
        answer({"trials": lines, "to_do": len(todo), "at_once": at_once, "seconds": total})
        return
    rows = []
    to_do = {"finished": "nothing", "new": "train", "running": "wait for another process"}
    for item in items:
        missing = " (to generate)" if item.data.missing and item in todo else ""
        took = "" if item not in todo else "?" if item.seconds is None else clock(item.seconds)
        what = to_do.get(item.state, f"resume ({item.state})") + (" (older code)" if item.name in old else "")
        rows.append([item.name, item.variant, what, f"{item.data.folder}{missing}", took])
    print_table(["run", "set", "to do", "dataset", "about"], rows)
    unknown = "time unknown" if len(known) == len(todo) else "time unknown, as no registered run has the same model"
    guess = unknown if total is None else f"about {clock(total)}, estimated from registered runs"
    many = f"{at_once} at once" if at_once else "as many at once as there is room for"
    say(f"{trials(len(items))}, {len(todo)} to do, {many}: {guess if todo else 'nothing to do'}")


def print_end(items: list[PlannedTrial], lines: dict[str, Line], registry: Registry, as_json: bool) -> None:
    """Print the final state of all trials, and the end of the log of each that failed."""
    from ape_cli.sweep import worker

    ends: list[dict[str, Any]] = []
    for item in items:
        line = lines.get(item.name)
        state = line.state if line else item.state
        ends.append({"run": item.name, "state": state, "trained": bool(line and line.result.get("trained"))})
        if line and line.error:
            ends[-1]["error"] = line.error
    if as_json:
        answer({"trials": ends})
    for line in (found for found in lines.values() if found.state == "failed"):
        path = worker.log_of(registry.folder, line.item.name)
        log = path.read_text(encoding="utf-8") if path.exists() else line.error
        note("")
        note(f"failed: {line.item.name}" + (f" ({path})" if path.exists() else ""))
        for text in log.strip().splitlines()[-_TAIL:]:
            note(f"  {text}")
    if not as_json:
        _print_scores([end["run"] for end in ends if end["state"] == "finished"], registry)
        count = {state: sum(end["state"] == state for end in ends) for state in dict.fromkeys(e["state"] for e in ends)}
        trained = sum(end["trained"] for end in ends)
        say(f"{trials(len(ends))}: {', '.join(f'{n} {s}' for s, n in count.items())}; {trained} trained now")


def _print_scores(runs: list[str], registry: Registry) -> None:
    """Print the table of the scores on the test split, if a run has one."""
    from ape_cli.reports import document, rendering
    from ape_cli.reports.views import Options, choose

    chosen, _ = choose(None, None, None)
    try:
        made, _ = document.read(registry.only(runs), chosen, Options(own=True, needed=False))
    except ApeError as error:  # a damaged run, for example; `ape report` says more
        note(f"no table of scores: {error.summary}")
        return
    if made.tables:
        draw(rendering.rich(made.tables))
        hint("`ape report` shows this table again; --interval, --metric and --plots show more")
