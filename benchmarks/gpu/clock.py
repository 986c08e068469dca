"""The minutes that a stage has."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass
class Clock:
    seconds: float
    begun: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        return self.seconds - (time.monotonic() - self.begun)

    def part(self, seconds: float) -> Clock:
        """Some of the time that is left."""
        return Clock(max(0.0, min(seconds, self.left)))
