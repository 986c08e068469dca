"""What is said once a minute, here much more often."""

from __future__ import annotations

import threading

from ape_cli.cli.console import Repeated


def test_it_is_said_again_and_again_until_it_is_stopped() -> None:
    said, often = list[int](), threading.Event()

    def say() -> None:
        said.append(len(said))
        if len(said) == 3:
            often.set()
        if len(said) == 2:
            raise BrokenPipeError

    lines = Repeated(say, 0.001)
    assert often.wait(60)
    lines.stop()
    number = len(said)
    assert not lines.thread.is_alive()
    assert len(said) == number
