"""Overview: the mean score by offset, the heat map of pairs, and the nodes of a tree, a ring or a grid."""

from __future__ import annotations

from dataclasses import replace

from ape_cli.reports.pictures import Material, Panel, PictureKind
from ape_cli.reports.pictures._places import coordinates
from ape_cli.reports.pictures.nodes import diagram
from ape_cli.reports.pictures.offsets import curves
from ape_cli.reports.pictures.pairs import heat_maps


class Overview(PictureKind):
    """The views of a scheme's scores side by side."""

    about = "offsets, pairs and, for trees, rings and grids, nodes, side by side"
    from_one_node = True

    def panels(self, material: Material) -> list[list[Panel]]:
        """One row of panels for each subject."""
        rows: list[list[Panel]] = []
        drawn = zip(material.subjects, curves(material.subjects), heat_maps(material.subjects), strict=True)
        for subject, curve, heat_map in drawn:
            rows.append([curve, heat_map])
            if coordinates(subject.structure, subject.places) is not None:
                rows[-1].append(replace(diagram(subject, material.node), limit=heat_map.limit))
        return rows
