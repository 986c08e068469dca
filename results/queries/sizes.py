"""Scores at sizes beyond those of training: the sweeps `generalise`, `depth` and `length`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from statistics import fmean

from ape_cli.sweep.planning import PlannedTrial
from results import claims, plans
from results.claims import Cell
from results.numbers import AGAIN, SCHEMES, Scores, evaluations, runs


def chosen_by_size(sweep: str) -> Iterator[tuple[PlannedTrial, list[dict[int, float]]]]:
    """The first trial of each cell whose runs are all finished, and its exact match by size, for each seed.

    The setting of a cell is the one that validation scores choose. The test set is that of other sizes.
    """
    for choice in plans.planned(sweep).choices:
        if all(item.state == "finished" for item in choice.runs):
            own = [
                next(e for e in item.run.evaluations()[0] if e.get("test_only") and e["decode"] == "teacher")
                for item in choice.runs
                if item.run
            ]
            lines = [{line["size"]: 100 * line["exact_match"] for line in of["by_size"]} for of in own]
            yield choice.runs[0], lines


@cache
def _by_depth() -> dict[tuple[str, str], list[dict[int, float]]]:
    return {(item.data.task, item.config.scheme): lines for item, lines in chosen_by_size("depth")}


def tuned_depth(task: str, scheme: str, *depths: int) -> Scores:
    """The mean exact match over depths in the sweep `depth`; by default over those above training."""
    sizes = depths or (6, 7, 8, 9)
    return Scores(enumerate((fmean(of[size] for size in sizes) for of in _by_depth()[task, scheme]), 42))


def depth_schemes(*but: str) -> list[str]:
    """The schemes of the sweep `depth`, without some of them."""
    return sorted({scheme for _, scheme in _by_depth()} - set(but))


def larger(column: str, scheme: str, *sizes: int, metric: str = "exact_match") -> Scores:
    """The mean over 1,000 rows of each of some larger sizes, for the runs of tables 1 and 2 that were trained again."""
    of_seed = evaluations(AGAIN)["small", column, scheme, ""].items()
    by_size = {
        seed: {line["size"]: 100 * line[metric] for line in evaluated[1]["by_size"]} for seed, evaluated in of_seed
    }
    return Scores({seed: fmean(lines[size] for size in sizes or lines) for seed, lines in by_size.items()})


def deep(task: str, order: str, scheme: str) -> Scores:
    """Exact match on trees of depths 9 and 10, which are unseen in training."""
    return larger(f"{task}/{order}", scheme, 9, 10)


def best_deep(task: str, order: str, *but: str) -> float:
    """The best mean of the schemes of trees without some of them."""
    return max(deep(task, order, scheme).mean for scheme in SCHEMES if scheme not in but)


@cache
def trained_again() -> tuple[int, list[float]]:
    """How many runs repeat the recorded losses, and how many points the scores of the others are apart."""
    recorded = {about.run: run for run, about in runs()}
    losses = ["step", "loss", "validation_loss"]
    same, apart = 0, []
    for run, about in runs(AGAIN):
        if run.history()[losses].equals(recorded[about.run].history()[losses]):
            same += 1
            continue
        first, second = (
            100 * e["overall"]["token_accuracy"]
            for compared in (run, recorded[about.run])
            for e in compared.evaluations()[0]
            if (e["fingerprint"], e["split"]) == (about.dataset.fingerprint, "test")
        )
        apart.append(abs(first - second))
    return same, apart


@cache
def length_cells() -> claims.Scores:
    return claims.scores(plans.planned("length"))


def longer(scheme: str, positions: str = "plain", task: str = "copy", model: str = "decoder", size: int = 0) -> Scores:
    """The score of a cell of `length`: the mean exact match beyond training, or that at the largest training size."""
    cell = length_cells()[Cell(scheme, positions, task, model)]
    by_seed = {seed: 100 * (of.trained if size else of.unseen) for seed, of in cell.items() if of}
    return Scores(by_seed)


@cache
def tied() -> dict[str, list[float]]:
    """The scores with each learning rate (encoder-decoder, plain positions, `copy`, seed 42), by scheme.

    Only the schemes whose validation accuracy is the same with all three.
    """
    found: dict[str, list[tuple[float, float]]] = {}
    for item in plans.planned("length").first:
        of = item.config
        own = (of.positions, item.data.task, of.model, of.seed) == ("plain", "copy", claims.MODELS[1], 42)
        if own and item.run and (result := item.run.record.result):
            found.setdefault(of.scheme, []).append((result.best_accuracy, 100 * claims.score(item.run).unseen))
    same = {scheme: of for scheme, of in found.items() if len(of) == 3 and len({accuracy for accuracy, _ in of}) == 1}
    return {scheme: [unseen for _, unseen in of] for scheme, of in same.items()}


def decoders(task: str) -> list[str]:
    """The schemes whose decoders with plain positions are finished on a task."""
    return sorted(
        c.scheme
        for c, of in length_cells().items()
        if (c.task, c.model, c.positions) == (task, "decoder", "plain") and claims.finished(of)
    )


@cache
def randomised() -> dict[Cell, tuple[float, float]]:
    """Exact match at size 40 with seed 42, plain and randomised, in the columns of `copy` and `reverse` with both."""
    by_cell = {}
    for pair in claims.claims()["randomised positions help"]:
        for column in pair.columns:
            both = [length_cells().get(Cell(*side, *column), {}).get(42) for side in (pair.theirs, pair.ours)]
            if column[0] in ("copy", "reverse") and both[0] and both[1]:
                by_cell[Cell(*pair.ours, *column)] = (100 * both[0].trained, 100 * both[1].trained)
    return by_cell


def copied_randomised() -> list[float]:
    """The percentage of words of 40 symbols that encoder-decoders with randomised positions copy."""
    return [ours for cell, (_, ours) in randomised().items() if cell[2:] == ("copy", "encoder-decoder")]


def copied_plain() -> list[float]:
    """The same with plain positions, without `alibi`."""
    cells = [(cell, plain) for cell, (plain, _) in randomised().items() if cell[2:] == ("copy", "encoder-decoder")]
    return [plain for cell, plain in cells if cell.scheme != "alibi"]


def uncounted() -> int:
    """The number of comparisons of randomised positions that cannot count, because no side has learnt the task."""
    _, count = claims.verdict(claims.claims()["randomised positions help"], length_cells())
    return count.settled - count.learnt


def longest_copied() -> int:
    """The largest size of the words that the runs trained again copy."""
    return max(line["size"] for line in evaluations(AGAIN)["small", "copy", "rope", ""][42][1]["by_size"])
