"""Offsets: the mean score by offset between query and key, with its range over heads.

For each head, scores are averaged over all pairs of places with the same offset. The line is the mean of these over
heads, and the band reaches from the smallest to the largest. On a line or a ring the offset is key - query, so that
keys behind the query are to the left. On other structures it is the distance in steps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ape_cli.reports.pictures import Curve, Material, Panel, PictureKind, Subject
from ape_cli.reports.pictures._places import apart


class MeanByOffset(PictureKind):
    """The mean score by offset."""

    about = "mean score by offset, with its range over heads"

    def panels(self, material: Material) -> list[list[Panel]]:
        """One curve for each subject, side by side."""
        return [list[Panel](curves(material.subjects))]


def curves(subjects: Sequence[Subject]) -> list[Curve]:
    """The curve of each subject. All have the same range of the y axis."""
    by_subject = []
    for subject in subjects:
        offset, x_label = apart(subject.structure, subject.places)
        x, which = np.unique(offset, return_inverse=True)
        counts = np.bincount(which.ravel())
        by_head = np.stack([np.bincount(which.ravel(), scores.ravel()) / counts for scores in subject.scores])  # [H, L]
        by_subject.append((subject, x, by_head, x_label))
    y_range = min(float(b.min()) for _, _, b, _ in by_subject), max(float(b.max()) for _, _, b, _ in by_subject)
    return [
        Curve(
            title=subject.titled("mean by offset" if "offset" in x_label else "mean by distance"),
            x=x,
            mean=by_head.mean(0),
            low=by_head.min(0),
            high=by_head.max(0),
            heads=len(by_head),
            x_label=x_label,
            y_label=subject.label,
            y_range=y_range,
        )
        for subject, x, by_head, x_label in by_subject
    ]
