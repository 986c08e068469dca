"""The fifteen tasks of Deletang et al. 2023 (arXiv:2207.02098), compared with rows of the published program.

`golden/chomsky.json` names the commit of the program and the versions that it ran with. It has three rows of each task
at lengths 1 to 20, 37 and 40, and means and deviations of 5,000 rows at lengths 20 and 40. `sample_batch` was called
with the paper's arguments, on a new task each time, because `modular_arithmetic` uses up its operators. The file lists
the seeds. Symbols are written as single characters, and padded answers end before the termination token.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ape_cli import tasks
from ape_cli.core import ragged, rng

GOLDEN = json.loads((Path(__file__).parent / "golden" / "chomsky.json").read_text(encoding="utf-8"))["tasks"]
WORD = {"0": "a", "1": "b"}
STACK = {"2": "POP", "3": "PUSH 0", "4": "PUSH 1"}
CYCLE = {"0": "4", "1": "0", "2": "1"}  # steps of -1, 0 and 1 on a cycle of five
OURS: dict[str, tuple[str, dict[str, Any], dict[str, str], dict[str, str]]] = {  # and renamed symbols of both sides
    "even_pairs": ("even-pairs", {}, {}, {}),
    "modular_arithmetic": ("modular", {"kind": "simple"}, {}, {}),
    "parity_check": ("modular", {"kind": "parity"}, {}, {}),
    "cycle_navigation": (
        "group-word",
        {"group": "cyclic-5", "answers": "product", "generators": "0,1,4"},
        CYCLE,
        {},
    ),
    "stack_manipulation": ("stack-manipulation", {}, STACK, {}),
    "reverse_string": ("reverse", {"vocabulary": 2}, WORD, WORD),
    "modular_arithmetic_brackets": ("modular", {"kind": "brackets"}, {}, {}),
    "solve_equation": ("solve-equation", {}, {}, {}),
    "duplicate_string": ("repeat", {"vocabulary": 2}, WORD, WORD),
    "missing_duplicate_string": ("missing-duplicate", {}, {}, {}),
    "odds_first": ("odds-first", {"vocabulary": 2}, WORD, WORD),
    "binary_addition": ("binary-addition", {}, {}, {}),
    "binary_multiplication": ("binary-multiplication", {}, {}, {}),
    "compute_sqrt": ("compute-sqrt", {}, {}, {}),
    "bucket_sort": ("bucket-sort", {}, {}, {}),
}
LENGTHS = [*range(1, 21), 37, 40]


def make(published: str, length: int) -> Any:
    """Our task at one length."""
    name, options, _, _ = OURS[published]
    return tasks.make(name, sizes=length, **options)


def golden(published: str, length: int) -> tuple[list[str], list[str]]:
    """The published inputs and outputs of a length."""
    sources, _, targets = zip(*(row.partition(" ") for row in GOLDEN[published]["rows"][str(length)]), strict=True)
    return list(sources), list(targets)


def written(tokens: tasks.Tokens, task: Any, renamed: dict[str, str]) -> list[str]:
    """Our rows in the characters of the published ones."""
    back = {name: character for character, name in renamed.items()}
    characters = [back.get(name, name) for name in task.id_names]
    return ["".join(characters[i] for i in row) for row in np.split(tokens.symbol, tokens.offsets[1:-1])]


def drawn(published: str, length: int, count: int) -> tuple[list[str], list[str]]:
    """Our rows of a length, before they are divided among splits, in the characters of the published ones."""
    task, (_, _, given, answered) = make(published, length), OURS[published]
    source = task.parts[0].draw(rng.rows(1, "train", np.arange(count)))
    return written(source, task, given), written(task.target(source), task, answered)


@pytest.mark.parametrize("published", OURS)
def test_published_inputs_have_the_published_answers(published: str) -> None:
    """odds_first writes the even places first. The paper has the odd ones first, as do its docstring and our task."""
    renamed = OURS[published][2]
    for length in LENGTHS:
        task, (sources, answers) = make(published, length), golden(published, length)
        ids = [[task.id_names.index(renamed.get(character, character)) for character in text] for text in sources]
        offsets = ragged.offsets_of(np.array(list(map(len, ids))))
        sizes = np.full(len(ids), length)
        source = tasks.Source(offsets, ragged.indices_of(offsets), np.concatenate(ids), sizes)
        if published == "odds_first":
            assert answers == [text[1::2] + text[::2] for text in sources]
            answers = [text[::2] + text[1::2] for text in sources]
        assert written(task.target(source), task, OURS[published][3]) == answers, length


@pytest.mark.parametrize("published", OURS)
def test_published_inputs_can_be_drawn(published: str) -> None:
    """They have the tokens of our rows. Up to length 3, the same sources are drawn."""
    for length in LENGTHS:
        sources, _ = golden(published, length)
        ours, _ = drawn(published, length, 2_000 if length < 4 else 200)
        assert set(map(len, sources)) == set(map(len, ours)), length
        assert set("".join(sources)) <= set("".join(ours)), length
        assert length > 3 or set(sources) <= set(ours), length


def statistics(sources: list[str], targets: list[str]) -> dict[str, list[float]]:
    """By name, a value of each row: how often each symbol occurs, where it is on average, and how a target begins."""
    found: dict[str, list[float]] = {"target length": [*map(len, targets)]}
    for symbol in sorted(set("".join(sources))):
        found[f"{symbol} in source"] = [text.count(symbol) for text in sources]
        found[f"{symbol} at"] = [sum(i for i, at in enumerate(text) if at == symbol) for text in sources]
    for symbol in sorted(set("".join(targets))):
        found[f"{symbol} in target"] = [text.count(symbol) for text in targets]
        found[f"{symbol} first"] = [text.startswith(symbol) for text in targets]
    return found


@pytest.mark.parametrize("published", OURS)
def test_rows_are_distributed_as_the_published_ones(published: str) -> None:
    """Each mean of 2,000 rows is within four standard errors of that of 5,000 published rows."""
    for length, expected in GOLDEN[published]["statistics"].items():
        ours = statistics(*drawn(published, int(length), 2_000))
        assert set(expected) <= set(ours)
        for name, (mean, deviation) in expected.items():
            error = (deviation**2 / 5_000 + np.var(ours[name]) / 2_000) ** 0.5
            assert abs(np.mean(ours[name]) - mean) <= 4 * error + 1e-3, (length, name)
