"""`ape schemes --algebra`: measure representations and special cases, and print their tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from ape_cli.cli.console import print_hint, print_note, print_note_lines, print_table
from ape_cli.core.errors import ApeError

Lines = list[dict[str, Any]]
# what is equal in a special case
COMPARED = {"scores": "scores", "behind": "scores of keys behind", "weights": "causal weights", "vectors": "vectors"}


def add_algebra(lines: Lines) -> None:
    """Measure the algebra of the schemes of some lines, and add it to each line as `algebra`.

    A note is printed about each scheme that cannot be measured, and its line stays as it is.
    """
    from ape_cli.evaluation import algebra

    names = [line["scheme"] for line in lines]
    cases = [dataclasses.asdict(case) for case in algebra.cases(names)]
    for line in lines:
        name = line["scheme"]
        print_hint(f"measuring {name}")
        try:
            every = algebra.representations(name)
        except ApeError as error:
            print_note_lines(f"left out: {error}")
            continue
        line["algebra"] = {
            "representations": [dataclasses.asdict(representation) for representation in every],
            "special_case_of": [case for case in cases if case["names"][0] == name],
            "contains": [case for case in cases if case["names"][1] == name],
        }


def print_algebra(lines: Lines) -> None:
    """Print the table of representations, that of special cases, and notes that explain them."""
    from ape_cli.evaluation.algebra import LAWS
    from ape_cli.evaluation.algebra.action import LIMIT, SAMPLES, TOKENS

    heads = ["representation of", "on", "group", "kind", "law", "error", "special case of"]
    rows, laws, cases = [], set(), {}
    for line in lines:
        measured = line.get("algebra")
        if not measured:
            continue
        rows += algebra_rows(measured)
        laws |= {representation["law"] for representation in measured["representations"]}
        for case in measured["special_case_of"] + measured["contains"]:
            cases[case["special"], case["general"]] = case
    print_table(heads, rows)
    print_note(f"errors are measured in float64, up to 10,000 steps and 40 levels; a law holds up to {LIMIT:g}")
    print_note(f"scores that depend on content: {TOKENS} tokens; vectors of nodes or of a table: {SAMPLES} places")
    print_note("kinds: elliptic operators rotate, hyperbolic ones stretch and shrink, unipotent ones shear")
    for law, about in LAWS.items():
        if law in laws:
            print_note(f"{law}: {about}")
    if cases:
        print_table(
            ["special case", "of", "by", "equal", "difference"],
            [
                [c["special"], c["general"], c["about"], COMPARED[c["compared"]], error_cell(c)]
                for _, c in sorted(cases.items())
            ],
        )


def error_cell(measured: dict[str, Any]) -> str:
    """An error as the text of a cell: `exact` for 0, and a word if it is too large."""
    return "exact" if measured["error"] == 0 else f"{measured['error']:.1e}{'' if measured['holds'] else ', fails'}"


def algebra_rows(measured: dict[str, Any], error: Callable[[dict[str, Any]], str] = error_cell) -> list[list[str]]:
    """The rows of the table of representations for a scheme, out of its `algebra`.

    Structures with the same kind and law share a row. Options without an effect on them have no row. `error` writes the
    text of the largest error in a row.
    """
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    seen = set()
    for representation in measured["representations"]:
        options = " ".join(f"{key}={str(value).lower()}" for key, value in representation["options"].items())
        what = representation["kind"], representation["steps"], representation["law"], representation["holds"]
        if options and (representation["structure"], *what) in seen:
            continue
        seen.add((representation["structure"], *what))
        groups.setdefault((f"{representation['scheme']} {options}".strip(), *what), []).append(representation)
    rows = []
    for (name, operator_kind, steps, law, _), same in groups.items():
        structures = [representation["structure"] for representation in same]
        generals = [
            case["general"] + ("" if case["structure"] == structures[0] else f" ({case['structure']})")
            for case in measured["special_case_of"]
            if case["holds"] and case["options"] == same[0]["options"] and case["structure"] in structures
        ]
        rows.append(
            [
                name,
                ", ".join(structures),
                ", ".join(dict.fromkeys(representation["group"] for representation in same)),
                f"{operator_kind} (steps: {steps})" if steps and operator_kind == "none" else operator_kind,
                law,
                error(max(same, key=lambda representation: float(representation["error"]))),
                ", ".join(dict.fromkeys(generals)) or "not tested",
            ]
        )
    return rows
