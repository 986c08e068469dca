"""The tables of what `ape schemes` measures: costs, and which representation each scheme is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from ape_cli.cli.console import print_note, print_note_lines, print_table, ticker
from ape_cli.core.errors import ApeError

Lines = list[dict[str, Any]]

COMPARED = {  # what is equal in a special case
    "scores": "scores",
    "behind": "scores of keys behind",
    "weights": "causal weights",
    "vectors": "vectors",
}


def print_costs(lines: Lines) -> None:
    """Print the table of measured costs, and notes that explain it."""
    heads = ["scheme", "on", "model", "parameters", "extra memory, MiB", "memory / none", "time / none"]
    rows = [
        [
            c["scheme"],
            c["structure"],
            c["model"],
            f"{c['parameters']:,}",
            f"{c['extra_memory_mib']:.2f}",
            f"{c['memory_ratio']:.2f}",
            f"{c['time_ratio']:.2f}",
        ]
        for c in lines
    ]
    print_table(heads, rows, numbers=heads[3:])
    print_note("measured: a training step of the model of preset small on 32 rows of 63 tokens, without locality bias;")
    print_note("memory is kept between forward and backward pass; time is the median of seven ratios to `none`")


def add_algebra(lines: Lines) -> None:
    """Measure the algebra of the schemes of some lines, and add it to each line as `algebra`.

    A note is printed about each scheme that cannot be measured, and its line stays as it is.
    """
    from ape_cli.evaluation import algebra

    tick = ticker()
    names = [line["scheme"] for line in lines]
    found = [dataclasses.asdict(case) for case in algebra.cases(names)]
    for line in lines:
        name = line["scheme"]
        tick(f"measuring {name}")
        try:
            every = algebra.representations(name)
        except ApeError as error:
            print_note_lines(f"left out: {error}")
            continue
        line["algebra"] = {
            "representations": [dataclasses.asdict(one) for one in every],
            "special_case_of": [case for case in found if case["names"][0] == name],
            "contains": [case for case in found if case["names"][1] == name],
        }


def print_algebra(lines: Lines) -> None:
    """Print the table of representations, that of special cases, and notes that explain them."""
    from ape_cli.evaluation.algebra import LAWS
    from ape_cli.evaluation.algebra.action import LIMIT

    heads = ["representation of", "on", "group", "kind", "law", "error", "special case of"]
    rows, laws, cases = [], set(), {}
    for line in lines:
        measured = line.get("algebra")
        if not measured:
            continue
        rows += algebra_rows(measured)
        laws |= {one["law"] for one in measured["representations"]}
        for case in measured["special_case_of"] + measured["contains"]:
            cases[case["special"], case["general"]] = case
    print_table(heads, rows)
    print_note(f"errors are measured in float64, up to 10,000 steps and 40 levels; a law holds up to {LIMIT:g}")
    print_note("kinds: elliptic operators rotate, hyperbolic ones stretch and shrink, unipotent ones shear")
    for law, about in LAWS.items():
        if law in laws:
            print_note(f"{law}: {about}")
    if cases:
        print_table(
            ["special case", "of", "by", "equal", "difference"],
            [
                [c["special"], c["general"], c["about"], COMPARED[c["compared"]], error_text(c)]
                for _, c in sorted(cases.items())
            ],
        )


def error_text(measured: dict[str, Any]) -> str:
    """An error as the text of a cell: `exact` for 0, and a word if it is too large."""
    return "exact" if measured["error"] == 0 else f"{measured['error']:.1e}{'' if measured['holds'] else ', fails'}"


def algebra_rows(measured: dict[str, Any], error: Callable[[dict[str, Any]], str] = error_text) -> list[list[str]]:
    """The rows of the table of representations for a scheme, out of its `algebra`.

    Structures with the same kind and law share a row. Options without an effect on them have no row. `error` writes the
    text of the largest error in a row.
    """
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    seen = set()
    for one in measured["representations"]:
        options = " ".join(f"{key}={str(value).lower()}" for key, value in one["options"].items())
        what = one["kind"], one["steps"], one["law"], one["holds"]
        if options and (one["structure"], *what) in seen:
            continue
        seen.add((one["structure"], *what))
        groups.setdefault((f"{one['scheme']} {options}".strip(), *what), []).append(one)
    rows = []
    for (name, kind, steps, law, _), same in groups.items():
        rows.append(
            [
                name,
                ", ".join(one["structure"] for one in same),
                ", ".join(dict.fromkeys(one["group"] for one in same)),
                f"{kind} (steps: {steps})" if steps and kind == "none" else kind,
                law,
                error(max(same, key=lambda one: float(one["error"]))),
                _generals(same, measured["special_case_of"]),
            ]
        )
    return rows


def _generals(same: Lines, cases: Lines) -> str:
    """What the representations of a row are special cases of, as the text of a cell."""
    usual, *others = (one["structure"] for one in same)
    found = []
    for case in cases:
        if case["holds"] and case["options"] == same[0]["options"] and case["structure"] in (usual, *others):
            where = "" if case["structure"] == usual else f" ({case['structure']})"
            found.append(case["general"] + where)
    return ", ".join(dict.fromkeys(found))
