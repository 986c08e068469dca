"""Finite groups as multiplication tables: families that have a name, and the laws that every table has to satisfy.

Products are read from the left to the right. The product of two permutations p and q is the permutation that first
applies p and then q.

| name | elements | their number | names of elements |
|---|---|---|---|
| `cyclic-N` | the integers modulo N under addition | N | `0` to `N-1` |
| `dihedral-N` | the symmetries of a regular polygon with N corners | 2N | `r0` to `rN-1`, `sr0` to `srN-1` |
| `symmetric-N` | all permutations of N points | N! | cycles, as `(0 1 2)(3 4)`; the identity is `()` |
| `alternating-N` | the even permutations of N points | N!/2 | the same |

The rotation `rK` moves corner i to corner i + K modulo N. The reflection `srK` is s followed by rK, where s moves
corner i to corner -i modulo N. So N is always the number of points that are moved, and `dihedral-8` has 16 elements.
Permutations are numbered in the lexicographic order of their lists of images, so the identity comes first.

Shapes: N elements, n points.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ape_cli.core.errors import DataError, UsageError
from ape_cli.core.rng import I64


@dataclass(frozen=True)
class Group:
    """A finite group. Its elements are the numbers 0..N-1."""

    names: list[str]  # of the elements
    products: I64  # [N, N]: the element i times the element j is products[i, j]

    @property
    def sha256(self) -> str:
        """The SHA-256 digest of the names and the products, in hexadecimal."""
        return hashlib.sha256(json.dumps([self.names, self.products.tolist()]).encode()).hexdigest()


def _cyclic(n: int) -> Group:
    """The integers modulo n under addition."""
    element = np.arange(n)
    return Group([str(i) for i in range(n)], (element[:, None] + element) % n)


def _dihedral(n: int) -> Group:
    """The symmetries of a regular polygon with n corners: the rotations r^k, then the reflections s r^k."""
    flip, turn = np.divmod(np.arange(2 * n), n)
    turns = (turn + np.where(flip, -turn[:, None], turn[:, None])) % n  # r^a s = s r^-a
    names = [f"{kind}{k}" for kind in ("r", "sr") for k in range(n)]
    return Group(names, n * (flip[:, None] ^ flip) + turns)


def _symmetric(n: int) -> Group:
    """All permutations of n points."""
    return _of_permutations(list(itertools.permutations(range(n))))


def _alternating(n: int) -> Group:
    """The even permutations of n points: those with an even number of inversions."""
    every = itertools.permutations(range(n))
    return _of_permutations([p for p in every if sum(a > b for a, b in itertools.combinations(p, 2)) % 2 == 0])


def _of_permutations(found: list[tuple[int, ...]]) -> Group:
    """The group of permutations that are listed in lexicographic order, each as the images of the points 0..n-1."""
    images = np.array(found)  # [N, n]
    digits = images.shape[1] ** np.arange(images.shape[1])[::-1]
    after = images[:, images].swapaxes(0, 1)  # [N, N, n]: q[p[x]] at [p, q, x]
    return Group([cycles(p) for p in found], np.searchsorted(images @ digits, after @ digits))


def cycles(images: tuple[int, ...]) -> str:
    """A permutation in cycle notation. Points that it does not move are left out.

    >>> cycles((1, 2, 0, 4, 3)), cycles((0, 1))
    ('(0 1 2)(3 4)', '()')
    """
    text, seen = "", set[int]()
    for start in range(len(images)):
        cycle, point = list[int](), start
        while point not in seen:
            seen.add(point)
            cycle.append(point)
            point = images[point]
        text += f"({' '.join(map(str, cycle))})" if len(cycle) > 1 else ""
    return text or "()"


_FAMILIES: dict[str, tuple[int, int, Callable[[int], Group]]] = {  # the smallest and the largest N, and the function
    "cyclic": (2, 1000, _cyclic),
    "dihedral": (3, 500, _dihedral),
    "symmetric": (2, 6, _symmetric),
    "alternating": (3, 6, _alternating),
}


def is_file(text: str) -> bool:
    """Whether the option `group` names a file. Names of files have a dot or a slash; names of groups have neither."""
    return "." in text or "/" in text


def check_name(text: str) -> tuple[str, int]:
    """The family and the number in the name of a group. Raises `UsageError` if there is no such group."""
    found = re.fullmatch(r"([a-z]+)-([0-9]{1,4})", text)
    family, n = (found[1], int(found[2])) if found else ("", 0)
    low, high, _ = _FAMILIES.get(family, (1, 0, _cyclic))
    if not low <= n <= high:
        names = ", ".join(f"{name}-{low} to {name}-{high}" for name, (low, high, _) in _FAMILIES.items())
        allowed = f"{names}; or a file with a multiplication table, such as ./table.csv"
        raise UsageError("unknown group", got=repr(text), allowed=allowed, fix="choose one of those")
    return family, n


def named(text: str) -> Group:
    """The group of a name such as `alternating-5`. Raises `UsageError` if there is no such group."""
    family, n = check_name(text)
    return _FAMILIES[family][2](n)


def check_laws(group: Group, where: object) -> None:
    """Check the laws of a group. `products` has to be closed already. `where` is the place of the table in messages.

    Raises `DataError` that names elements for which a law does not hold.
    """
    names, products, number = group.names, group.products, np.arange(len(group.names))

    def broken(what: str, got: str) -> DataError:
        fix = "correct the table; a table of names has the line and the column of the identity first"
        return DataError(f"{where} is not the multiplication table of a group: {what}", got=got, fix=fix)

    neutral = np.flatnonzero((products == number).all(1) & (products.T == number).all(1))
    if not neutral.size:
        raise broken("it has no identity", "no element e with e x = x e = x for all x")
    inverse = products == neutral[0]
    lacking = np.flatnonzero(~(inverse & inverse.T).any(1))
    if lacking.size:
        raise broken("an element has no inverse", names[lacking[0]])
    for c in number:
        left, right = products[products, c], products[:, products[:, c]]  # (a b) c and a (b c), [N, N]
        if (left != right).any():
            a, b = np.argwhere(left != right)[0]
            x, y, z = names[a], names[b], names[c]
            got = f"({x} * {y}) * {z} = {names[left[a, b]]}, {x} * ({y} * {z}) = {names[right[a, b]]}"
            raise broken("it is not associative", got)
