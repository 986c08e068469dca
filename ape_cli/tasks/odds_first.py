"""The task `odds-first`: the target is the symbols in odd places of a word, then those in even places.

Source: the task "odds first" of Deletang et al. 2023, "Neural Networks and the Chomsky Hierarchy" (arXiv:2207.02098),
with words over 2 symbols (`vocabulary=2`).

Deviations: the published program writes the even places first. The paper and the program's docstring put the odd places
first, and so does this task. Symbols are letters, as in `copy`, `reverse` and `repeat`. By default, lengths are
normally distributed; the published ones are uniform (`--sizes 1-40`).

Shapes: R rows, T tokens in all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ape_cli.core import ragged
from ape_cli.tasks import Source, Tokens
from ape_cli.tasks._words import Words


@dataclass(frozen=True, kw_only=True)
class OddsFirst(Words):
    """Write the first, third, fifth … symbol of a word, then the second, fourth, sixth …

    >>> task = OddsFirst(length_mean=8, length_std=0)
    >>> row = task.sample(rows=range(1), split="train", seed=42).to_pylist()[0]
    >>> "".join(task.id_names[i] for i in row["source_ids"]), "".join(task.id_names[i] for i in row["target_ids"])
    ('pplcbbcn', 'plbcpcbn')
    """

    summary = "symbols in odd places, then those in even places: abcdef -> acebdf"
    source = "Deletang et al. 2023, arXiv:2207.02098"

    def target(self, source: Source) -> Tokens:
        """The target of each source: its odd places, then its even ones, counted from 1."""
        row = ragged.rows_of(source.offsets)
        odd = (np.diff(source.offsets)[row] + 1) // 2  # the number of odd places
        place = 2 * source.position - np.where(source.position < odd, 0, 2 * odd - 1)
        return Tokens(source.offsets, source.position, source.symbol[source.offsets[row] + place])
