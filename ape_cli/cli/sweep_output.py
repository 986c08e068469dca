"""What `ape sweep` prints before it begins and at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from ape_cli.cli._app import with_results
from ape_cli.cli.console import draw, print_hint, print_json, print_note, print_result, print_table
from ape_cli.cli.progress_lines import clock
from ape_cli.cli.sweep_table import Line, trials
from ape_cli.core.errors import ApeError
from ape_cli.core.slow_steps import slow_step

if TYPE_CHECKING:
    from ape_cli.runs.registry import Registry
    from ape_cli.sweep.planning import PlannedTrial
    from ape_cli.sweep.stages import GroupChoice

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
        took = "" if item not in todo else "?" if item.seconds is None else _clock(item.seconds)
        what = to_do.get(item.state, f"resume ({item.state})") + (" (older code)" if item.name in old else "")
        rows.append([item.name, item.variant, what, f"{item.data.folder}{missing}", took])
    print_table(["run", "set", "to do", "dataset", "about"], rows)
    guess = "time unknown" if total is None else f"about {_clock(total)}, estimated from {_basis(todo)}"
    if len(estimates) < len(todo):
        guess += ", as no registered run has the same model and this machine has no GPU"
    many = f"{at_once} at once" if at_once else "as many at once as there is room for"
    print_result(f"{trials(len(items))}, {len(todo)} to do, {many}: {guess if todo else 'nothing to do'}")
    if later:
        start = "starts" if later == 1 else "start"
        print_result(f"{later} of these {start} once settings are chosen, and are not in the table")


def _clock(seconds: float) -> str:
    """An estimated time as text, at least a second."""
    return clock(max(1.0, seconds))


def _basis(items: list[PlannedTrial]) -> str:
    """What the estimates of trials rest on, the least sure one, and how sure it is."""
    from ape_cli.sweep.durations import OTHERS, SIMILAR, SIZE

    bases = {item.estimate.basis for item in items if item.estimate}
    basis = next((basis for basis in (SIZE, OTHERS) if basis in bases), SIMILAR)
    return basis if basis == SIMILAR else f"{basis} (usually within a factor of 3)"


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
    from ape_cli.sweep import worker

    ends: list[dict[str, Any]] = []
    for item in items:
        line = lines.get(item.name) or Line(item, item.state)
        ends.append({"run": item.name, "state": line.state, "trained": bool(line.result.get("trained"))})
        ends[-1] |= {"error": line.error} if line.error else {}
    if as_json:
        print_json({"trials": ends} | ({} if choices is None else {"chosen": [_as_json(choice) for choice in choices]}))
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
            _print_choices(choices)
        if choices is not None:
            finished &= {item.name for choice in choices for item in choice.runs}
        _print_scores(sorted(finished), registry, "" if choices is None else " --best-by validation")
        count = Counter(end["state"] for end in ends)
        trained = sum(end["trained"] for end in ends)
        print_result(f"{trials(len(ends))}: {', '.join(f'{n} {s}' for s, n in count.items())}; {trained} trained now")


def _as_json(choice: GroupChoice) -> dict[str, Any]:
    """A choice for a program."""
    return {
        "group": choice.group,
        "setting": choice.setting,
        "trials": choice.trials,
        "seeds": choice.seeds,
        "validation": choice.validation._asdict(),
        "runs": [item.name for item in choice.runs],
    }


def _print_choices(choices: list[GroupChoice]) -> None:
    """Print the table of the settings that were chosen by validation scores."""
    from ape_cli.runs.record import settings_text

    heads = ["group", "chosen", "settings tried", "seeds", "validation accuracy"]
    rows = [
        [
            choice.group,
            settings_text(choice.setting),
            str(choice.trials),
            str(len(choice.seeds)),
            f"{choice.validation.accuracy:.2%}",
        ]
        for choice in choices
    ]
    print_table(heads, rows, numbers=heads[2:])


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
