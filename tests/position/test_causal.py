"""Schemes whose scores depend on content, in causal attention: what each of them has to keep."""

from __future__ import annotations

import pytest

from tests.position import causal

WORST = {"contextual": 0.05, "forget": 0.3, "path": 0.1}  # errors of scores in bfloat16; those of forget reach -60
CHECKS = [check for name, check in vars(causal).items() if name.startswith("check_") and name != "check_autocast"]


@pytest.mark.parametrize("check", [*CHECKS, lambda name: causal.check_autocast(name, WORST[name])])
@pytest.mark.parametrize("name", WORST)
def test_it_behaves_in_causal_attention(name: str, check: causal.Check) -> None:
    check(name)
