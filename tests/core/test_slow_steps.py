"""A step that takes long says what it does, and a quick one does not."""

from __future__ import annotations

import importlib.machinery
import queue
import sys
import threading
import time
from types import ModuleType

import pytest

from ape_cli.core import slow_steps
from ape_cli.core.errors import messages_to
from ape_cli.core.slow_steps import slow_imports, slow_step


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_steps, "PATIENCE", 0.05)


def test_a_slow_step_is_named() -> None:
    said: queue.Queue[str] = queue.Queue()
    with messages_to(said.put), slow_step("counting"):
        assert said.get(timeout=10) == "counting …"


def test_a_quick_step_is_not_named_even_if_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_steps, "PATIENCE", 30.0)
    said: list[str] = []
    with messages_to(said.append):
        with slow_step("adding"):
            pass
        with pytest.raises(ValueError, match="wrong"), slow_step("counting"):
            raise ValueError("wrong")
        for timer in [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]:
            timer.join(10)
            assert not timer.is_alive()
    assert said == []


def test_a_closed_pipe_does_not_print_a_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    heard = threading.Event()

    def write(line: str) -> None:
        heard.set()
        raise BrokenPipeError

    with messages_to(write), slow_step("counting"):
        assert heard.wait(10)
    assert capfd.readouterr().err == ""


def test_it_names_the_library_that_is_being_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    with slow_imports(said.append):  # everything is imported
        time.sleep(0.2)
    assert said == []
    module, spec = ModuleType("torch"), importlib.machinery.ModuleSpec("torch", None)
    spec._initializing = True  # type: ignore[attr-defined]
    module.__spec__ = spec
    monkeypatch.setitem(sys.modules, "torch", module)
    with slow_imports(said.append):
        time.sleep(0.2)
    assert said == ["loading PyTorch …"]
