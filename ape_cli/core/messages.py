"""The handler for messages of this package, which are records of the standard `logging` module at level INFO.

A module logs with `logging.getLogger(__name__)`. Messages are not printed until `messages_to` installs the only
handler. The command line prints them to stderr, and a trial of a sweep writes them into its own log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class _Lines(logging.Handler):
    """Passes each record to `write` as text."""

    def __init__(self, write: Callable[[str], None]) -> None:
        """Handle records of level INFO and above."""
        super().__init__(logging.INFO)
        self.write = write

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        self.write(self.format(record))


@contextmanager
def messages_to(write: Callable[[str], None]) -> Iterator[None]:
    """A context in which each message of `ape_cli` is passed to `write`, and to no other handler."""
    logger = logging.getLogger("ape_cli")
    handlers, level, propagate = logger.handlers, logger.level, logger.propagate
    logger.handlers, logger.propagate = [_Lines(write)], False
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)
