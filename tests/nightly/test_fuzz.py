"""Mutated files of every kind: nothing changes silently, nothing ends in a traceback, and nothing takes long.

`make fuzz` makes 10,000 mutations. Here there are some for each kind of file, always the same ones.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.nightly.fuzz.__main__ import CASES, mutate
from tests.nightly.fuzz.cases import BrokenRule, Registry

SEED = 1
EACH = {True: 8, False: 24}  # mutations of files of trees, which take longer, and of other files


@pytest.mark.parametrize("name", CASES)
def test_no_mutation_breaks_a_rule(name: str, tmp_path: Path) -> None:
    case = CASES[name](tmp_path)
    outcomes = Counter(mutate(case, name, SEED, number) for number in range(EACH[name.startswith("trees")]))
    assert set(outcomes) <= {"same", "refused", "named", "new"}, outcomes  # none took more than 5 s
    assert outcomes["refused"] + outcomes["named"] > 0


def test_a_silent_change_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the comparison of digests, some of these mutations change a number without a message."""
    case = Registry(tmp_path)
    monkeypatch.setattr("ape_cli.storage.digests.is_sealed", lambda raw, value: True)

    def every() -> None:
        for number in range(200):
            mutate(case, "runs", SEED, number)

    with pytest.raises(BrokenRule, match="a silent change"):
        every()
