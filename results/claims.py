"""The verdicts on the claims that `length.toml` tests. The page says what counts as confirmed.

A column is a task and a model. A cell is a scheme in a column, with the learning rate that validation scores chose and
three seeds. Its score is the mean exact match over the sizes above those of training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from ape_cli.runs.run import Run
from ape_cli.sweep.stages import Stages

LARGEST = 40  # size of the training words
POINTS = 0.05  # the least difference of means
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


class Comparison(NamedTuple):
    """Two schemes, each with its map of positions, in the columns in which a claim compares them."""

    ours: tuple[str, str]
    theirs: tuple[str, str]
    columns: tuple[tuple[str, str], ...]


Scores = Mapping[Cell, Mapping[int, float]]  # of each finished cell, by seed


def claims() -> dict[str, list[Comparison]]:
    """The comparisons of each claim."""
    decoder = tuple((task, "decoder") for task in TASKS)
    both = tuple((task, model) for task in TASKS for model in MODELS)

    def against(ours: str, others: Sequence[str], columns: tuple[tuple[str, str], ...]) -> list[Comparison]:
        return [Comparison((ours, "plain"), (other, "plain"), columns) for other in others]

    return {
        "no encoding is best in decoders": against("none", ("sinusoidal", "rope", "alibi", "t5"), decoder),
        "ALiBi extrapolates": against("alibi", ("sinusoidal", "rope", "t5"), decoder),
        "randomised positions help": [
            Comparison((scheme, "randomised"), (scheme, "plain"), decoder if scheme in CAUSAL else both)
            for scheme in RANDOMISED
        ],
        "FIRE is best": against("fire", ("none", "sinusoidal", "rope", "alibi", "kerple", "t5"), decoder),
        "CoPE counts": against("contextual", ("rope", "relative"), (("modular", "decoder"), ("group-word", "decoder"))),
    }


def scores(stages: Stages) -> Scores:
    """The scores of the finished cells of the sweep."""
    found: dict[Cell, Mapping[int, float]] = {}
    for choice in stages.choices:
        if all(item.state == "finished" for item in choice.runs):
            config, data = choice.runs[0].config, choice.runs[0].data
            cell = Cell(config.scheme, config.positions, data.task, getattr(config, "model", MODELS[1]))
            found[cell] = {item.config.seed: _unseen(item.run) for item in choice.runs if item.run}
    return found


def _unseen(run: Run) -> float:
    """The mean exact match of a run over the sizes above those of training."""
    lines = [
        line
        for evaluation in run.evaluations()[0]
        if evaluation.get("test_only") and evaluation["decode"] == "teacher"
        for line in evaluation["by_size"]
    ]
    return fmean(line["exact_match"] for line in lines if line["size"] > LARGEST)


def beats(ours: Mapping[int, float], theirs: Mapping[int, float]) -> bool:
    """Whether a score is higher with each seed, and in the mean by at least `POINTS`.

    >>> beats({1: 0.5, 2: 0.6}, {1: 0.4, 2: 0.5}), beats({1: 0.9, 2: 0.4}, {1: 0.1, 2: 0.5})
    (True, False)
    """
    differences = [ours[seed] - theirs[seed] for seed in sorted(ours)]
    return min(differences) > 0 and fmean(differences) >= POINTS


def counted(comparison: Comparison, cells: Scores) -> tuple[int, int, int]:
    """The number of columns whose cells are finished, and of those in which `ours` beats `theirs` and is beaten."""
    finished = won = lost = 0
    for task, model in comparison.columns:
        ours, theirs = (cells.get(Cell(*side, task, model)) for side in (comparison.ours, comparison.theirs))
        if ours is not None and theirs is not None:
            finished += 1
            won += beats(ours, theirs)
            lost += beats(theirs, ours)
    return finished, won, lost


def verdict(comparisons: Sequence[Comparison], cells: Scores) -> tuple[str, int, int, int, int]:
    """The verdict on a claim, and its numbers of comparisons: finished, in all, won, lost. It is open until all are."""
    counts = [counted(comparison, cells) for comparison in comparisons]
    finished, won, lost = (sum(column) for column in zip(*counts, strict=True))
    of = sum(len(comparison.columns) for comparison in comparisons)
    if finished < of:
        word = "open"
    elif all(above > below for _, above, below in counts):
        word = "confirmed"
    else:
        word = "contradicted" if all(above < below for _, above, below in counts) else "not seen"
    return word, finished, of, won, lost


def table(stages: Stages) -> str:
    """The table of the verdicts."""
    cells = scores(stages)
    lines = ["| claim | comparisons finished | beats | is beaten | verdict |", "|---|---:|---:|---:|---|"]
    for claim, comparisons in claims().items():
        word, finished, of, won, lost = verdict(comparisons, cells)
        lines.append(f"| {claim} | {finished} of {of} | {won} | {lost} | {word} |")
    return "\n".join(lines) + "\n"
