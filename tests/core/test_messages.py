"""Messages of the package: which handler gets them, and the logging configuration before and after."""

from __future__ import annotations

import logging
from contextlib import suppress

import pytest

from ape_cli.core.errors import messages_to


def test_messages_go_to_the_innermost_handler_alone(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("ape_cli.anything")
    outer: list[str] = []
    inner: list[str] = []
    caplog.set_level(logging.INFO)
    with messages_to(outer.append):
        logger.info("one: 100%")
        logger.debug("details")
        with suppress(ValueError), messages_to(inner.append):
            logger.info("two")
            raise ValueError
        logger.warning("three")
    assert (outer, inner) == (["one: 100%", "three"], ["two"])
    assert caplog.messages == []
