"""Coupled: in a decoder-only model, positions restart in the target, so that it shares those of the source.

Source: Cho et al. 2024, arXiv:2405.20671, section 3 ("Position Coupling"): corresponding tokens of query and response
have the same position. Here token $k$ of the target has position $k$, like token $k$ of the source, and SOS, which
separates the two, has position 0. Positions are thus those of an encoder-decoder. Because source and target have equal
positions, the model adds a learned vector that tells the two sides apart, as for trees.

Deviations: the source couples tokens by a rule for each task (for addition, digits of equal weight); this is its rule
for copying. The positions of the source start at 1, whereas the paper draws the first in training (use `offset` for
that). The vector of the side is ours.
"""

from __future__ import annotations

from ape_cli.data.position_maps.plain import Plain


class Coupled(Plain):
    """The positions of the target begin anew."""

    about = "restart in the target of a decoder-only model"
    source = "Cho et al. 2024, arXiv:2405.20671, section 3"
    restarts = True
    decoder_only = "in an encoder-decoder, positions always restart in the target"
