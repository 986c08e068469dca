"""The time limit of a stage."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass
class Clock:
    """A time limit: `seconds` from `begun`, on the monotonic clock."""

    seconds: float
    begun: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        """Seconds that are left; negative after the end."""
        return self.seconds - (time.monotonic() - self.begun)

    def part(self, seconds: float) -> Clock:
        """A clock for at most `seconds` of the time that is left."""
        return Clock(max(0.0, min(seconds, self.left)))
