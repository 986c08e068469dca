"""Messages about steps that take long, so that a program which prints nothing for a while does not seem to hang."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 2.0  # seconds for which a step may be silent

logger = logging.getLogger(__name__)


@contextmanager
def slow_step(what: str) -> Iterator[None]:
    """Within the block, log `what` is being done if that takes longer than `PATIENCE`."""
    timer = threading.Timer(PATIENCE, logger.info, [f"{what} …"])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
