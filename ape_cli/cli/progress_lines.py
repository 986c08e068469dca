"""Lines of progress where there is no live display, such as in the log of a cluster: one a minute."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

_BETWEEN = 60.0  # seconds between two lines


class Repeated:
    """Calls a function once a minute in another thread, until it is stopped. `seconds`: another interval."""

    def __init__(self, call: Callable[[], None], seconds: float = _BETWEEN) -> None:
        """Start the thread. The first call is after one interval."""
        self.call, self.seconds, self.ended = call, seconds, threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while not self.ended.wait(self.seconds):
            with suppress(OSError):  # the reader of a pipe has gone; the command itself says so
                self.call()

    def stop(self) -> None:
        """End the thread. The function is not called afterwards."""
        self.ended.set()
        self.thread.join()


def clock(seconds: float) -> str:
    """Seconds as minutes and seconds, or as hours, minutes and seconds.

    >>> clock(59.6), clock(3725), clock(90_061)
    ('1:00', '1:02:05', '25:01:01')
    """
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
