"""Settings of a whole process: memory that is kept, and threads that share cores."""

from __future__ import annotations

import json
import os

import pytest

from ape_cli.core import runtime
from tests.interpreters import python


def test_busy_cores_are_those_of_others() -> None:
    """Each list is a core's ticks of user, nice, system, idle, iowait, irq, softirq and steal, over one second."""
    ticks = os.sysconf("SC_CLK_TCK")
    before = {0: [5, 5, 5, 5, 5, 5, 5, 5], 1: [0] * 8}
    after = {0: [5 + ticks // 2, 5, 5 + ticks // 4, 5, 5, 5, 5, 5], 1: [0, ticks, 0, 0, 0, 0, 0, 0]}
    assert runtime.busy_cores(before, after, 1.0) == pytest.approx(0.75)
    waiting = {0: [5, 5, 5, 5 + ticks, 5 + ticks, 5, 5, 5], 1: [0] * 8}
    assert runtime.busy_cores(before, waiting, 1.0) == 0


SHARING = """
import json, os
from ape_cli.core import runtime

runtime.busy_cores = lambda *words, **options: float(os.environ["BUSY"])
runtime.share_cores()
print(json.dumps({k: v for k, v in os.environ.items() if k in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}))
"""


@pytest.mark.parametrize(
    ("busy", "given", "expected"),
    [
        ("0.1", {}, {"GOMP_SPINCOUNT": "10000"}),
        ("1.3", {}, {"OMP_WAIT_POLICY": "PASSIVE"}),
        ("1.3", {"OMP_WAIT_POLICY": "ACTIVE"}, {"OMP_WAIT_POLICY": "ACTIVE"}),
        ("1.3", {"GOMP_SPINCOUNT": "7"}, {"GOMP_SPINCOUNT": "7"}),
    ],
)
def test_threads_sleep_where_others_use_the_cores(
    busy: str, given: dict[str, str], expected: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.delenv(name, raising=False)
    assert json.loads(python("-c", SHARING, BUSY=busy, **given).stdout) == expected
