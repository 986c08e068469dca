"""Pairs: a heat map of the scores of all pairs of places, with the query as row and the key as column.

A number is the mean over heads. The places of trees are in level order, and those of grids row by row.
"""

from __future__ import annotations

from collections.abc import Sequence

from ape_cli.reports.pictures import HeatMap, Material, Panel, PictureKind, Subject, limit_of
from ape_cli.reports.pictures._places import names


class Pairs(PictureKind):
    """The scores of all pairs of places."""

    about = "heat map of the scores of all pairs of places, query by key"

    def panels(self, material: Material) -> list[list[Panel]]:
        """One heat map for each subject, side by side."""
        return [list[Panel](heat_maps(material.subjects))]


def heat_maps(subjects: Sequence[Subject]) -> list[HeatMap]:
    """The heat map of each subject. All have the same colours."""
    means = [subject.scores.mean(0) for subject in subjects]
    limit = limit_of(*means)
    return [
        HeatMap(subject.titled("pairs"), mean, limit, subject.label, names(subject.places), names(subject.places))
        for subject, mean in zip(subjects, means, strict=True)
    ]
