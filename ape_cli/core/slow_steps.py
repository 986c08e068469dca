"""Messages about steps that take long, so that a program which prints nothing for a while does not seem to hang."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

PATIENCE = 2.0  # seconds for which a step may be silent
LIBRARIES = {"torch": "PyTorch", "polars": "Polars", "pyarrow": "PyArrow", "matplotlib": "Matplotlib"}

logger = logging.getLogger(__name__)


@contextmanager
def slow_step(what: str) -> Iterator[None]:
    """Within the block, log `what` is being done if that takes longer than `PATIENCE`."""
    with _after_a_while(lambda: logger.info(f"{what} …")):
        yield


@contextmanager
def slow_imports(write: Callable[[str], None]) -> Iterator[None]:
    """Within the block, write which library is being imported if one still is after `PATIENCE`."""

    def look() -> None:
        modules = {title: sys.modules.get(name) for name, title in LIBRARIES.items()}
        specs = {title: getattr(module, "__spec__", None) for title, module in modules.items()}
        for title in [title for title, spec in specs.items() if getattr(spec, "_initializing", False)][:1]:
            write(f"loading {title} …")

    with _after_a_while(look):
        yield


@contextmanager
def _after_a_while(action: Callable[[], None]) -> Iterator[None]:
    """Perform an action in another thread, unless the block ends before."""

    def act() -> None:
        with suppress(OSError):  # the reader of a pipe has gone; the command itself says so
            action()

    timer = threading.Timer(PATIENCE, act)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
