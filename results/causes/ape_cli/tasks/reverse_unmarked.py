"""The task `reverse` without EOS, which sources and targets lack in the authors' first release.

Data has an EOS if its structure is `seq`. A ring that is longer than every word has the same positions and no EOS.
"""

from __future__ import annotations

from dataclasses import dataclass

from ape_cli.tasks.reverse import Reverse


@dataclass(frozen=True, kw_only=True)
class ReverseUnmarked(Reverse):
    """Write the word backwards. Neither source nor target has an EOS."""

    structure = "cyclic(100000)"
    summary = "the word backwards, without EOS: abcd -> dcba"
