"""Training: the scores of a run's scheme before and after training, side by side.

Before: the weights that the run's seed gives. After: the best weights of the run. Colours and axes are the same.
"""

from __future__ import annotations

from ape_cli.reports.pictures import Material, Panel, PictureKind
from ape_cli.reports.pictures.offsets import curves
from ape_cli.reports.pictures.pairs import heat_maps


class Training(PictureKind):
    """The scores before and after training."""

    about = "offsets and pairs before and after the training of a run (--run)"
    needs = "training"

    def panels(self, material: Material) -> list[list[Panel]]:
        """A row of curves above a row of heat maps."""
        return [list[Panel](curves(material.subjects)), list[Panel](heat_maps(material.subjects))]
