"""indirect-indexing: answers found by Python's indices, pairs that are uniform, and what guesses reach."""

from __future__ import annotations

import string
from collections import Counter
from typing import Any

import pytest

from ape_cli import tasks
from tests.tasks.contract import check_uniform, count_of, in_splits, names_of, rows, source_of

FORMS: list[dict[str, Any]] = [
    {},
    {"length_mean": 8, "length_std": 1, "shift_max": 3, "vocabulary": 20},
    {"length_mean": 4, "length_std": 1, "shift_max": 99},
    {"sizes": (2, 12, 40, 52)},  # also longer strings than in training
    {"length_mean": 60, "length_std": 5, "shift_max": 80, "vocabulary": 300},
]


def asked(row: dict[str, Any]) -> tuple[list[str], str, int]:
    """The string, the given symbol and the shift of a row."""
    names = row["source"]
    comma = names.index(",")
    assert names[comma + 2] == ","
    assert names[comma + 3] in "+-"
    assert names[comma + 4] != "0"
    return names[:comma], names[comma + 1], int("".join(names[comma + 3 :]))


@pytest.mark.parametrize(("form", "split"), in_splits(FORMS), ids=str)
def test_target_is_rederived(form: dict[str, Any], split: str) -> None:
    task, found = rows("indirect-indexing", split=split, count=count_of(form, FORMS), **form)
    for row in found:
        word, given, shift = asked(row)
        place = word.index(given) + shift
        assert len(set(word)) == len(word) == row["size"]
        assert 1 <= abs(shift) <= task.shift_max
        assert 0 <= place < len(word), "it has an answer"
        assert row["target"] == [word[place]]


def test_questions_with_answers_by_hand() -> None:
    """The second row is a sample of the source."""
    task = tasks.make("indirect-indexing", vocabulary=52)
    questions = {"ABSCOPZG,Z,-3": "C", "NZTUIGWkXFrhCJDzscat,N,+4": "I", "abcdefghijklmno,b,+12": "n", "ab,b,-1": "a"}
    source = source_of(task, [" ".join(text) for text in questions], [text.index(",") for text in questions])
    assert names_of(task, task.target(source)) == list(questions.values())
    assert task.id_names[3:] == [*string.ascii_letters, *string.digits, "+", "-", ","]


def answerable(length: int, most: int) -> list[tuple[int, int]]:
    """All places and shifts whose answer is in the string."""
    shifts = [shift for shift in range(-most, most + 1) if shift]
    return [(place, shift) for place in range(length) for shift in shifts if 0 <= place + shift < length]


@pytest.mark.parametrize(("length", "most"), [(5, 3), (4, 9)])
def test_questions_with_an_answer_are_equally_likely(length: int, most: int) -> None:
    """So are the symbols at each place."""
    form = {"length_mean": length, "length_std": 0, "shift_max": most, "vocabulary": 7}
    found = [asked(row) for row in rows("indirect-indexing", count=4_000, **form)[1]]
    pairs = Counter((word.index(given), shift) for word, given, shift in found)
    assert set(pairs) == set(answerable(length, most))
    check_uniform(pairs, len(pairs))
    for place in range(length):
        check_uniform(Counter(word[place] for word, _, _ in found), 7)


def best_guess(questions: list[tuple[int, int]], known: Any, guessed: Any) -> float:
    """How often the most frequent answer for what is known is right."""
    counts: dict[Any, Counter[int]] = {}
    for place, shift in questions:
        counts.setdefault(known(place, shift), Counter())[guessed(place, shift)] += 1
    return sum(max(count.values()) for count in counts.values()) / len(questions)


@pytest.mark.parametrize(("length", "most"), [(30, 15), (20, 15), (12, 5), (6, 9), (9, 1)])
def test_guesses_are_as_good_as_described(length: int, most: int) -> None:
    """No guess from the same knowledge is better. The symbol's place alone tells less than with the sign."""
    questions = answerable(length, most)
    m = min(most, length - 1)
    pairs = 2 * (m * length - m * (m + 1) // 2)
    assert len(questions) == pairs
    by_shift = best_guess(questions, lambda _, shift: shift, lambda place, shift: place + shift)
    by_side = best_guess(questions, lambda place, shift: (place, shift > 0), lambda _, shift: shift)
    nearest = sum(abs(shift) == 1 for _, shift in questions) / pairs
    middle = sum(place + shift == (length - 1) // 2 for place, shift in questions) / pairs
    assert best_guess(questions, lambda *_: 0, lambda place, shift: place + shift) == middle <= by_shift
    assert best_guess(questions, lambda place, _: place, lambda _, shift: shift) <= by_side
    assert by_shift == pytest.approx(1 / (length - (m + 1) / 2)) == pytest.approx(2 * m / pairs)
    assert by_side == nearest == 2 * (length - 1) / pairs
    if (length, most) == (30, 15):
        assert [f"{100 * share:.1f}" for share in (middle, by_shift, by_side)] == ["4.4", "4.5", "8.8"]
