"""Encoding or map of positions? The rule of the page `maps`, applied to the finished runs of `maps.toml`.

Scores are exact match in percent: at the largest size of training, or as the mean over the sizes beyond. The effect of
a factor is in points.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from results.numbers import Scores
from results.plans import standing
from results.queries.sizes import chosen_by_size

ENCODINGS = ("learned", "rope", "alibi", "fire", "orthogonal-seq")
MAPS = ("plain", "coupled", "randomised", "abacus")
LARGEST, BEYOND = 20, (25, 30, 40, 50, 60, 80, 100)  # digits: the largest of training, and those of a score
LEARNT, POINTS = 90, 5  # exact match at the largest size of training, and the least difference of two effects

Cell = tuple[str, str]  # an encoding and a map


def cells(*sizes: int) -> dict[Cell, Scores]:
    """The mean exact match over some sizes of the cells whose seeds are all finished."""
    found = {}
    for item, lines in chosen_by_size("maps"):
        by_seed = {42 + n: fmean(of[size] for size in sizes) for n, of in enumerate(lines)}
        found[item.config.scheme, item.config.positions] = Scores(by_seed)
    return found


def effect(scores: Mapping[Cell, Scores], factor: int) -> Scores:
    """How far the means of a factor's levels are apart, as their root mean square deviation, for each seed.

    factor: 0 for the encodings, 1 for the maps. A mean is over all levels of the other factor.
    """
    levels = (ENCODINGS, MAPS)[factor]

    def apart(seed: int) -> float:
        means = [fmean(of[seed] for cell, of in scores.items() if cell[factor] == level) for level in levels]
        return math.sqrt(fmean((mean - fmean(means)) ** 2 for mean in means))

    return Scores({seed: apart(seed) for seed in next(iter(scores.values()))})


def verdict(scores: Mapping[Cell, Scores]) -> str:
    """The two effects in the scores of all cells, and which one the rule calls larger."""
    maps, encodings = effect(scores, 1), effect(scores, 0)
    ahead = maps - encodings
    larger = "the map" if ahead.mean > 0 else "the encoding"
    larger = larger if ahead.is_clear and abs(ahead) >= POINTS else "neither"
    return f"maps {maps:.1f} ±{maps.half:.1f}, encodings {encodings:.1f} ±{encodings.half:.1f}: {larger}"


def table(scores: Mapping[Cell, Scores], trained: Mapping[Cell, Scores]) -> str:
    """The scores with the means of rows and columns, and the verdict. Cells that have not learnt are in brackets."""

    def printed(of: Sequence[Cell]) -> str:
        if not all(cell in scores for cell in of):
            return "—"
        score = Scores({seed: fmean(scores[cell][seed] for cell in of) for seed in scores[of[0]]})
        text = f"{score:.1f} ±{score.half:.1f}"
        return text if len(of) > 1 or trained[of[0]].mean >= LEARNT else f"({text})"

    lines = [f"| encoding | {' | '.join(MAPS)} | mean |", f"|---|{'---:|' * (len(MAPS) + 1)}"]
    for scheme in ENCODINGS:
        row = [(scheme, name) for name in MAPS]
        lines.append(f"| `{scheme}` | {' | '.join(printed([cell]) for cell in row)} | {printed(row)} |")
    columns = [printed([(scheme, name) for scheme in ENCODINGS]) for name in MAPS]
    lines.append(f"| mean | {' | '.join(columns)} | |")
    lines.append(f"| `none` | {printed([('none', 'plain')])} |{' |' * len(MAPS)}")
    crossed = [(scheme, name) for scheme in ENCODINGS for name in MAPS]
    if not all(cell in scores for cell in crossed):
        told = ["The question is open until all cells are finished."]
    elif not any(trained[cell].mean >= LEARNT for cell in crossed):
        told = [f"The question cannot be answered, because no cell has learnt {LARGEST} digits."]
    else:
        beyond, within = ({cell: of[cell] for cell in crossed} for of in (scores, trained))
        told = [f"- Beyond training: {verdict(beyond)}.", f"- At {LARGEST} digits: {verdict(within)}."]
    return "\n".join([*lines, "", *told, ""])


def parts() -> dict[str, str]:
    """The table, as soon as the sweep has a finished run."""
    return {"maps-effects.md": table(cells(*BEYOND), cells(LARGEST))} if standing("maps")[0] else {}
