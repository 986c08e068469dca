"""Prefetching: make the next batches in a thread while the current one is used."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_T = TypeVar("_T")


def prefetch(items: Iterable[_T], count: int) -> Generator[_T, None, None]:
    """Yield the same items; a thread makes up to `count` of them before they are asked for. 0 uses no thread.

    An error that occurs while an item is made is raised where this item is asked for. After the generator is closed,
    the thread has ended.
    """
    if not count:
        yield from items
        return
    left = iter(items)

    def following() -> list[_T]:  # empty at the end
        return list(itertools.islice(left, 1))

    with ThreadPoolExecutor(1) as thread:
        waiting = deque(thread.submit(following) for _ in range(count))
        while made := waiting.popleft().result():
            waiting.append(thread.submit(following))
            yield made[0]
