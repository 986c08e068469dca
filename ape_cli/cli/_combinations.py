"""Which options of `ape report` cannot be combined: each function raises a `UsageError` that says why."""

from __future__ import annotations

from typing import Any

from ape_cli.core.errors import UsageError, pick

_PARTS = {"size": "size", "op": "operator"}  # of the evaluated rows, by --by


def refuse_grouping(
    by: str | None, style: str, compare: tuple[str, str] | None, against: str | None, asked: dict[str, Any]
) -> None:
    """What has no effect beside --by, or makes no sense with it."""
    if by is None:
        return
    pick("grouping", by, ["size", "op", "epoch"])
    if compare:
        what = "of the weights that were kept" if by == "epoch" else f"over all {_PARTS[by]}s"
        raise UsageError(f"a comparison is {what}", got=f"--compare and --by {by}", fix="leave one out")
    if against and by in _PARTS:
        what = f"the paper has no scores by {_PARTS[by]}"
        raise UsageError(what, got=f"--against {against} --by {by}", fix="leave one out")
    if style == "html":
        raise UsageError(f"a page always has the tables by {by}", got=f"--by {by}", fix="leave it out")
    if by == "epoch":
        _refuse_by_epoch(asked)


def _refuse_by_epoch(asked: dict[str, Any]) -> None:
    """What the history of a run does not tell."""
    from ape_cli.reports.curves import MEASURED
    from ape_cli.reports.evaluations import METRICS

    metric = pick("metric", asked["metric"], METRICS)
    if metric not in MEASURED:
        raise UsageError(
            f"{METRICS[metric][0]} is not measured while a run trains, so there is none by epoch",
            got=f"--metric {metric}",
            allowed=", ".join(MEASURED),
            fix="leave --metric or --by out",
        )
    for option, only in (("decode", "teacher"), ("split", "test")):
        if asked[option] != only:
            what = "scores by epoch are those that runs were chosen by, on every split that they looked at"
            raise UsageError(what, got=f"--{option} {asked[option]}", fix=f"leave --{option} out")


def refuse_beside_the_paper(against: str | None, asked: dict[str, Any]) -> None:
    """Scores that the paper does not have."""
    for option, only in (("metric", "token_accuracy"), ("decode", "teacher"), ("split", "test")):
        if against and asked[option] != only:
            what = f"the paper has no such scores: its {option} is {only}"
            raise UsageError(what, got=f"--against {against} --{option} {asked[option]}", fix="leave one out")


def refuse_both(style: str, compare: tuple[str, str] | None, interval: bool, against: str | None) -> None:
    """What would have no effect beside another option."""
    if interval and (compare or style in ("csv", "json")):
        there = "a comparison" if compare else style
        raise UsageError(f"{there} always has the interval", got="--interval", fix="leave it out")
    if compare and against:
        raise UsageError("one comparison at a time", got=f"--compare and --against {against}", fix="leave one out")
