"""Coupled: in a decoder-only model, the positions of the target begin anew, so that it has those of the source.

Source: Cho et al. 2024, arXiv:2405.20671, section 3 ("Position Coupling"): tokens of the query and of the response that
correspond to each other have the same position. Here the k-th token of the target has the position k, as the k-th token
of the source, and SOS, which separates the two, has 0. So the positions are those of an encoder-decoder. Because source
and target have equal positions, the model adds a learned vector that tells the two sides apart, as for trees.

Deviations: the source couples tokens by a rule for each task (digits of the same weight, in addition), and this is its
rule for copies. The positions of the source start at 1, where the paper draws the first one in training (`offset` draws
one). The vector for the side is this package's.
"""

from __future__ import annotations

from ape_cli.data.position_maps.plain import Plain


class Coupled(Plain):
    """The positions of the target begin anew."""

    about = "those of the target begin anew, in a decoder-only model"
    source = "Cho et al. 2024, arXiv:2405.20671, section 3"
    restarts = True
    decoder_only = "in an encoder-decoder, the positions of the target begin anew anyway"
