"""The second program of `slow_report.py` for comparisons in pairs."""

from __future__ import annotations

import itertools
import math
from statistics import fmean, stdev

from tests.reports.slow_report import (
    T95,
    Cell,
    Run,
    cells_of,
    markdown,
    order,
    row_names,
    table_of,
    tests,
    words,
)


def compared(runs: list[Run], a: str, b: str) -> list[str]:
    """`ape report --compare A B`."""
    both, out = list[Run](), list[str]()
    for _, group in itertools.groupby(sorted(runs, key=table_of), table_of):
        of_table = list(group)
        name = row_names(of_table)
        whole = {name(run): f"{run['scheme']} ({words(run['own'])})" if run["own"] else "" for run in of_table}
        schemes = [row.partition(" ")[0] for row in whole]
        calls = {}
        for side, called in (("a", a), ("b", b)):
            exact = [row for row, of in whole.items() if of == called] or [row for row in whole if row == called]
            single = [row for row in whole if row.partition(" ")[0] == called] if schemes.count(called) == 1 else []
            for row in [*exact, *single][:1]:
                calls[side] = row, 2 if whole[row] == called else int(row == called)
        if len(calls) == 2 and calls["a"][0] == calls["b"][0]:
            low = min(level for _, level in calls.values())
            calls = {side: of for side, of in calls.items() if of[1] > low}
        both += [run | {"side": side} for run in of_table for side, (row, _) in calls.items() if name(run) == row]
    for preset in sorted({run["preset"] for run in both}):
        of_preset = [run for run in both if run["preset"] == preset]
        cells = cells_of(of_preset, tests)
        columns: dict[str, dict[str, Cell]] = {}
        for cell in sorted(cells, key=lambda cell: (cell[2]["structure"], *order(cell[1], cell[2]))):
            columns.setdefault(cell[1][1], {})[cell[2]["side"]] = cell
        tables: dict[tuple[str, str], list[tuple[str, Cell, Cell]]] = {}
        for column, of in columns.items():
            if len(of) == 2 and of["a"][3].keys() & of["b"][3].keys():
                tables.setdefault((of["a"][0], of["b"][0]), []).append((column, of["a"], of["b"]))
        several = f", preset {preset}" * (len({run["preset"] for run in both}) > 1)
        for names, lines in tables.items():
            out += paired(*names, lines, several)
    return out


def paired(a: str, b: str, columns: list[tuple[str, Cell, Cell]], several: str) -> list[str]:
    """The table of two rows: each column, and all tasks if there are several."""
    lines, of_task = [], dict[str, list[tuple[float, float]]]()
    for column, (*_, run, ours), (*_, theirs) in columns:
        seeds = sorted(ours.keys() & theirs.keys())
        pairs = [(ours[seed], theirs[seed]) for seed in seeds]
        lines.append([column, *statistics_of(pairs, over_tasks=False)])
        if " on " not in column:
            of_task.setdefault(run["task"], []).append((fmean(x for x, _ in pairs), fmean(y for _, y in pairs)))
    if len(of_task) > 1:
        pairs = [(fmean(x for x, _ in of), fmean(y for _, y in of)) for of in of_task.values()]
        lines.append(["all tasks", *statistics_of(pairs, over_tasks=True)])
    heads = [a, b, "difference", "interval", "better", "pairs", "p", "least p"]
    return markdown(f"{a} against {b}{several}, token accuracy", "task", heads, lines)


def statistics_of(pairs: list[tuple[float, float]], *, over_tasks: bool) -> list[str]:
    """The numbers of a line of pairs."""
    gaps = [round(x - y, 10) for x, y in pairs]
    mean, interval = round(fmean(gaps), 10) + 0.0, "—"
    if len(pairs) > 1 and not over_tasks:
        half = T95[len(pairs)] * stdev(gaps) / math.sqrt(len(pairs))
        low, high = (100 * min(1.0, max(-1.0, mean + sign * half)) for sign in (-1, 1))
        interval = f"[{low:+.2f}, {high:+.2f}]"
    flips = [
        sum(s * g for s, g in zip(signs, gaps, strict=True)) for signs in itertools.product((1, -1), repeat=len(gaps))
    ]
    p = fmean(abs(flip) > abs(sum(gaps)) - 1e-9 for flip in flips)
    better = f"{sum(g > 0 for g in gaps)} : {sum(g < 0 for g in gaps)}"
    means = [f"{100 * fmean(side):.2f}" for side in zip(*pairs, strict=True)]
    return [*means, f"{100 * mean:+.2f}", interval, better, str(len(gaps)), f"{p:.3g}", f"{2 / 2 ** len(gaps):.3g}"]
