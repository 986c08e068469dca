"""Nodes: the places of a structure, each with the colour of its score from one place (`--node`).

That place is the query, and all places are keys. A number is the mean over heads. Trees, rings and grids with two axes
can be drawn. For a sequence, the view `pairs` has the same numbers in one of its rows.
"""

from __future__ import annotations

from dataclasses import replace

from ape_cli.core.errors import UsageError
from ape_cli.reports.pictures import Diagram, Material, Panel, PictureKind, Subject, limit_of
from ape_cli.reports.pictures._places import coordinates, middle, names


class Nodes(PictureKind):
    """The scores from one place."""

    about = "tree, grid or ring with nodes coloured by their score from one node (--node)"
    from_one_node = True

    def panels(self, material: Material) -> list[list[Panel]]:
        """One diagram for each subject, side by side. Raises `UsageError` for a structure that cannot be drawn."""
        for subject in material.subjects:
            if coordinates(subject.structure, subject.places) is None:
                what, allowed = "this structure has no drawing of its nodes", "tree(k), cyclic(n), grid(2)"
                fix = "`view=pairs`, or another `structure`"
                raise UsageError(what, got=subject.structure, allowed=allowed, fix=fix)
        from_node = [diagram(subject, material.node) for subject in material.subjects]
        limit = limit_of(*(panel.values for panel in from_node))
        return [[replace(panel, limit=limit) for panel in from_node]]


def diagram(subject: Subject, node: int | None) -> Diagram:
    """The diagram of the scores from a place, given by its index, or from the usual place for None."""
    chosen = middle(subject.structure, subject.places) if node is None else node
    values = subject.scores.mean(0)[chosen]
    title = subject.titled(f"keys seen from a query at {names(subject.places)[chosen]}")
    return Diagram(title, subject.structure, subject.places, values, limit_of(values), subject.label, chosen)
