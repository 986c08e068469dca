"""A step that takes long says what it does, and a quick one does not."""

from __future__ import annotations

import queue
import threading

import pytest

from ape_cli.core import slow_steps
from ape_cli.core.errors import messages_to
from ape_cli.core.slow_steps import slow_step


def test_a_slow_step_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_steps, "PATIENCE", 0.05)
    lines: queue.Queue[str] = queue.Queue()
    with messages_to(lines.put), slow_step("counting"):
        assert lines.get(timeout=10) == "counting …"


def test_a_quick_step_is_not_named_even_if_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_steps, "PATIENCE", 0.5)
    lines: list[str] = []
    with messages_to(lines.append):
        with pytest.raises(ValueError, match="wrong"), slow_step("counting"):
            raise ValueError("wrong")
        for timer in [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]:
            timer.join()
    assert lines == []
