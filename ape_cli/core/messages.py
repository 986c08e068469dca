"""Where the messages of this package go: they are records of the standard `logging` module, at level INFO.

A module logs with `logging.getLogger(__name__)`. Nothing is printed until `messages_to` installs the one handler: the
command line prints to stderr, and a trial of a sweep writes into its own log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class _Lines(logging.Handler):
    def __init__(self, write: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self.write = write

    def emit(self, record: logging.LogRecord) -> None:
        self.write(self.format(record))


@contextmanager
def messages_to(write: Callable[[str], None]) -> Iterator[None]:
    """Pass every message of `ape_cli` to `write` inside this block, and to no other handler."""
    logger = logging.getLogger("ape_cli")
    handlers, level, propagate = logger.handlers, logger.level, logger.propagate
    logger.handlers, logger.propagate = [_Lines(write)], False
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)
