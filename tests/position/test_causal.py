"""Schemes whose scores depend on content, in causal attention: what each of them has to keep."""

from __future__ import annotations

from typing import Any

import pytest

from ape_cli import position
from tests.position import causal

# errors of scores in bfloat16; those of forget reach -60
WORST = {"contextual": 0.05, "forget": 0.3, "path": 0.1, "selective-rope": 0.05}
CHECKS = [check for name, check in vars(causal).items() if name.startswith("check_") and name != "check_autocast"]


def autocast(name: str, options: dict[str, Any]) -> None:
    """With forget gates, errors are those of `forget`."""
    causal.check_autocast(name, options, WORST["forget" if "forget" in options else name])


@pytest.mark.parametrize("check", [*CHECKS, autocast])
@pytest.mark.parametrize("name", WORST)
def test_it_behaves_in_causal_attention(name: str, check: causal.Check) -> None:
    for options in ({}, *position.load(name).variants):
        check(name, options)
