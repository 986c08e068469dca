"""How many seeds solve indirect indexing, and which schemes differ: the sweep `indirect`."""

from __future__ import annotations

import math
from functools import cache
from statistics import fmean, median

from ape_cli.reports.stats import wilson
from results.plans import planned

SOLVED = 95.0  # exact match on the test rows, in percent
BASELINE = "rope"  # each other scheme is compared with it in the same model


@cache
def indirect() -> dict[tuple[str, str], dict[int, float]]:
    """Exact match on the test rows of the finished runs: by model and scheme, as the sweep lists them, then by seed."""
    found: dict[tuple[str, str], dict[int, float]] = {}
    for item in planned("indirect").trials:
        if item.state == "finished" and item.run:
            own = next(e for e in item.run.evaluations()[0] if (e["split"], e["decode"]) == ("test", "teacher"))
            cell = found.setdefault((item.config.model, item.config.scheme), {})
            cell[item.config.seed] = 100 * float(own["overall"]["exact_match"])
    return found


@cache
def unfinished() -> set[str]:
    """The models with runs of the sweep that are not finished."""
    return {item.config.model for item in planned("indirect").trials if item.state != "finished"}


def solved(model: str, scheme: str) -> tuple[int, int]:
    """How many of the finished seeds solve the task, and how many there are."""
    scores = indirect()[model, scheme].values()
    return sum(score >= SOLVED for score in scores), len(scores)


def fisher(ours: tuple[int, int], theirs: tuple[int, int]) -> float:
    """The two-sided p-value of Fisher's exact test of two rates, each a number of successes and of trials.

    It is the sum over all tables with the same margins that are at most as probable as this one.

    >>> f"{fisher((8, 8), (2, 8)):.4f}", fisher((4, 8), (4, 8))
    ('0.0070', 1.0)
    """
    (first, count), (second, other) = ours, theirs
    total = first + second
    ways = [math.comb(count, k) * math.comb(other, total - k) for k in range(total + 1)]
    return sum(of for of in ways if of <= ways[first]) / sum(ways)


def compared(model: str) -> dict[str, tuple[float, bool]]:
    """By scheme: the p-value against `BASELINE`, and whether it counts: below 5% divided by the number of schemes.

    Empty until all runs of the model are finished.
    """
    if model in unfinished():
        return {}
    schemes = [scheme for of, scheme in indirect() if of == model and scheme != BASELINE]
    tests = {scheme: fisher(solved(model, scheme), solved(model, BASELINE)) for scheme in schemes}
    return {scheme: (p, p < 0.05 / len(tests)) for scheme, p in tests.items()}


def least_seen(model: str) -> int | None:
    """How many seeds have to solve the task for a difference above `BASELINE` to count. None if all are not enough."""
    solves, count = solved(model, BASELINE)
    bound = 0.05 / len(compared(model))
    return next((k for k in range(solves + 1, count + 1) if fisher((k, count), (solves, count)) < bound), None)


def indirect_answer() -> str:
    """For each model, whether the published claim is seen, and which schemes differ from `BASELINE`."""
    sentences = []
    for model in dict.fromkeys(of for of, _ in indirect()):
        if model in unfinished():
            sentences.append(f"the runs of the {model} are not finished.")
            continue
        (pope, count), (rope, _) = solved(model, "pope"), solved(model, BASELINE)
        differ = [f"`{scheme}`" for scheme, (_, counts) in compared(model).items() if counts]
        is_seen = "`pope`" in differ and pope > rope
        seen = "seen" if is_seen else f"not seen ({least_seen(model) or f'not even {count}'} would suffice)"
        sentences.append(
            f"in the {model}, {pope} of {count} seeds solve the task with `pope` and {rope} with `rope`: the published "
            f"lead of `pope` is {seen}. Schemes that differ from `rope`: {', '.join(differ) or 'none'}."
        )
    return " ".join([sentences[0], *(text[0].upper() + text[1:] for text in sentences[1:])])


def solve_rates() -> str:
    """The table of solve rates by model: with intervals, the range of the scores, and the test against `BASELINE`."""
    lines = ["| model | scheme | solved | 95% interval (%) | exact match: least, median, most | p, against `rope` |"]
    lines.append("|---|---|---:|---:|---:|---:|")
    for (model, scheme), of in sorted(indirect().items(), key=lambda cell: cell[0][0]):
        right, count = solved(model, scheme)
        low, high = wilson(right / count, count)
        p, counts = compared(model).get(scheme, (None, False))
        test = "—" if p is None else f"{'**' * counts}{p:.4f}{'**' * counts}"
        scores = ", ".join(f"{score:.1f}" for score in (min(of.values()), median(of.values()), max(of.values())))
        interval = f"{100 * low:.0f} to {100 * high:.0f}"
        lines.append(f"| {model} | `{scheme}` | {right} of {count} | {interval} | {scores} | {test} |")
    return "\n".join(lines)


def next_symbol() -> float:
    """How often the symbol next to the given one, on the side of the shift, is the answer, in percent, on average."""
    lengths, most = range(3, 9), 3  # results/indirect.sh
    pairs = {n: [abs(i - j) for i in range(n) for j in range(n) if 0 < abs(i - j) <= most] for n in lengths}
    return 100 * fmean(of.count(1) / len(of) for of in pairs.values())
