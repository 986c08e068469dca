"""Attention: the weights of a run on one sample, with a row of heat maps for each layer and a column for each head."""

from __future__ import annotations

from ape_cli.reports.pictures import HeatMap, Material, Panel, PictureKind, limit_of


class AttentionWeights(PictureKind):
    """The attention weights of a run on one sample."""

    about = "attention weights of a run on one sample (--run, --row), layers by heads"
    needs = "attention"

    def panels(self, material: Material) -> list[list[Panel]]:
        """One heat map for each layer and head. All have the same colours."""
        limit, (queries, keys) = limit_of(material.weights), material.tokens
        return [
            [
                HeatMap(f"layer {number}, head {head}", values, limit, "attention weight", queries, keys, words=True)
                for head, values in enumerate(heads, 1)
            ]
            for number, heads in enumerate(material.weights, 1)
        ]
