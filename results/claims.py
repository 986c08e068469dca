"""The verdicts on the claims that `length.toml` tests. The page says what counts as confirmed.

A column is a task and a model. A cell is a scheme in a column, with the learning rate that validation scores chose and
three seeds. Its score is the mean exact match over the sizes above those of training. Its exact match at the largest
training size says whether the model has learnt the task at all. Where neither cell of a comparison can have learnt it,
whatever the missing seeds do, the comparison is settled without them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from ape_cli.runs.run import Run
from ape_cli.sweep.stages import Stages

LARGEST = 40  # size of the training words
BEYOND = (50, 60, 80, 120, 200)
POINTS = 0.05  # the least difference of means
LEARNT = 0.9  # exact match at the largest training size: with less in both cells, a column shows nothing
TASKS = ("copy", "reverse", "addition", "modular", "group-word")
MODELS = ("decoder", "encoder-decoder")
RANDOMISED = ("sinusoidal", "learned", "rope", "xpos", "alibi", "kerple", "t5", "fire", "shear", "orthogonal-seq")
CAUSAL = ("xpos", "shear")  # of these, the schemes that only the decoder has


class Cell(NamedTuple):
    """A scheme with a map of positions, in a column."""

    scheme: str
    positions: str
    task: str
    model: str


class Pair(NamedTuple):
    """Two schemes, each with its map of positions, and the columns in which a claim compares them."""

    ours: tuple[str, str]
    theirs: tuple[str, str]
    columns: tuple[tuple[str, str], ...]


class Score(NamedTuple):
    """The exact match of a run: at the largest training size, and the mean over the sizes above."""

    trained: float
    unseen: float


Scores = Mapping[Cell, Mapping[int, Score | None]]  # of each cell with a chosen setting, by seed: None if not finished


def claims() -> dict[str, list[Pair]]:
    """The pairs of each claim."""
    decoder = tuple((task, "decoder") for task in TASKS)
    both = tuple((task, model) for task in TASKS for model in MODELS)

    def against(ours: str, others: Sequence[str], columns: tuple[tuple[str, str], ...]) -> list[Pair]:
        return [Pair((ours, "plain"), (other, "plain"), columns) for other in others]

    return {
        "no encoding is best in decoders": against("none", ("sinusoidal", "rope", "alibi", "t5"), decoder),
        "ALiBi extrapolates": against("alibi", ("sinusoidal", "rope", "t5"), decoder),
        "randomised positions help": [
            Pair((scheme, "randomised"), (scheme, "plain"), decoder if scheme in CAUSAL else both)
            for scheme in RANDOMISED
        ],
        "FIRE is best": against("fire", ("none", "sinusoidal", "rope", "alibi", "kerple", "t5"), decoder),
        "CoPE counts": against("contextual", ("rope", "relative"), (("modular", "decoder"), ("group-word", "decoder"))),
    }


def scores(stages: Stages) -> Scores:
    """The scores of the cells of the sweep whose settings are chosen."""
    cells: dict[Cell, Mapping[int, Score | None]] = {}
    for choice in stages.choices:
        config, data = choice.runs[0].config, choice.runs[0].data
        cell = Cell(config.scheme, config.positions, data.task, getattr(config, "model", MODELS[1]))
        cells[cell] = {
            item.config.seed: score(item.run) if item.run and item.state == "finished" else None for item in choice.runs
        }
    return cells


def score(run: Run) -> Score:
    """The exact match of a run at the largest training size and beyond, from the evaluation of the sweep."""
    by_size = [
        {line["size"]: line["exact_match"] for line in evaluation["by_size"]}
        for evaluation in run.evaluations()[0]
        if evaluation.get("test_only") and evaluation["decode"] == "teacher"
    ]
    (exact,) = (of for of in by_size if set(of) == {LARGEST, *BEYOND})
    return Score(exact[LARGEST], fmean(exact[size] for size in BEYOND))


def finished(cell: Mapping[int, Score | None]) -> dict[int, Score] | None:
    """The cell if all of its seeds are finished, and None otherwise."""
    complete = {seed: score for seed, score in cell.items() if score is not None}
    return complete if len(complete) == len(cell) else None


def learnt(cell: Mapping[int, Score | None]) -> bool:
    """Whether the model has learnt the task at its training sizes: by the mean over seeds at the largest one.

    A missing seed counts as if all of its answers were right. For an unfinished cell, this says
    whether its mean can still be high enough.
    """
    return fmean(score.trained if score else 1.0 for score in cell.values()) >= LEARNT


def beats(ours: Mapping[int, Score], theirs: Mapping[int, Score]) -> bool:
    """Whether a score beyond training is higher with each seed, and in the mean by at least `POINTS`."""
    differences = [ours[seed].unseen - theirs[seed].unseen for seed in sorted(ours)]
    return min(differences) > 0 and round(fmean(differences), 9) >= POINTS  # 0.35 - 0.3 is a little less than 0.05


class Count(NamedTuple):
    """Comparisons of one pair, or of all pairs of a claim: a comparison is a pair in a column."""

    planned: int
    settled: int  # both cells are finished, or neither can have learnt the task
    learnt: int  # of these, at least one of the cells has learnt the task
    won: int  # of these, `ours` beats `theirs`
    lost: int  # of these, `theirs` beats `ours`


def counted(pair: Pair, cells: Scores) -> Count:
    """The comparisons of a pair."""
    both = [
        [cells.get(Cell(*side, *column), {0: None}) for side in (pair.ours, pair.theirs)] for column in pair.columns
    ]
    possible = [of_column for of_column in both if any(map(learnt, of_column))]
    counting = [(ours, theirs) for ours, theirs in (map(finished, of) for of in possible) if ours and theirs]
    won = sum(beats(ours, theirs) for ours, theirs in counting)
    lost = sum(beats(theirs, ours) for ours, theirs in counting)
    return Count(len(both), len(both) - len(possible) + len(counting), len(counting), won, lost)


def verdict(pairs: Sequence[Pair], cells: Scores) -> tuple[str, Count]:
    """The verdict on a claim, and its comparisons.

    It is open until all of them are settled, or fewer than half can count.
    """
    counts = [counted(pair, cells) for pair in pairs]
    total = Count(*(sum(column) for column in zip(*counts, strict=True)))
    unsettled = total.planned - total.settled
    if 2 * (total.learnt + unsettled) < total.planned:
        return "not seen", total
    if unsettled:
        return "open", total
    if all(count.won > count.lost for count in counts):
        return "confirmed", total
    if all(count.won < count.lost for count in counts):
        return "contradicted", total
    return "not seen", total


def table(stages: Stages) -> str:
    """The table of the verdicts."""
    cells = scores(stages)
    lines = ["| claim | comparisons settled | learnt | beats | is beaten | verdict |", "|---|---:|---:|---:|---:|---|"]
    for claim, pairs in claims().items():
        word, of = verdict(pairs, cells)
        lines.append(f"| {claim} | {of.settled} of {of.planned} | {of.learnt} | {of.won} | {of.lost} | {word} |")
    return "\n".join(lines) + "\n"
