"""The task `group-word`: the product of a word of elements of a finite group.

The model has to track a state: the product so far. Its difficulty depends on the group (Merrill, Petty and Sabharwal
2024, arXiv:2404.08819; Liu et al. 2023, arXiv:2210.10749). For a group that is not solvable, such as `alternating-5`,
no transformer of fixed depth can solve the task at every length, unless TC0 = NC1.

With `group=cyclic-5 answers=product generators=0,1,4` it is the task "cycle navigation" of Deletang et al. 2023
(arXiv:2207.02098): a walk on a circle of five states, with steps of 0, 1 and -1 (the element `4`). Published
lengths are uniform (`--sizes 1-40`); at these, 21% of the walks end where they began.

Groups are multiplication tables: named families, or tables in files. Products are read from left to right. The product
of permutations p and q first applies p, then q.

| name | elements | order | names of elements |
|---|---|---|---|
| `cyclic-N` | the integers modulo N under addition | $N$ | `0` to `N-1` |
| `dihedral-N` | the symmetries of a regular polygon with N corners | $2N$ | `r0` to `rN-1`, `sr0` to `srN-1` |
| `symmetric-N` | all permutations of N points | $N!$ | cycles, such as `(0 1 2)(3 4)`; the identity is `()` |
| `alternating-N` | the even permutations of N points | $N!/2$ | the same |

The rotation `rK` moves corner $i$ to corner $i + K$ modulo $N$. The reflection `srK` is s followed by rK, where s moves
corner $i$ to corner $-i$ modulo $N$. $N$ is always the number of points that are moved, so `dihedral-8` has 16
elements. Permutations are numbered in the lexicographic order of their lists of images, so the identity comes first.

A table of $N$ elements is a text file (UTF-8) of $N$ lines with $N$ entries each, separated by commas, or by spaces if
there are no commas. The entry in line $i$ and column $j$ is the product of elements $i$ and $j$. Empty lines are
skipped.

- If all entries are whole numbers, they are the numbers of elements, from 0 to $N - 1$, in the order of the lines.
- Otherwise, entries are names. The first line is that of the identity, so it lists the names in the order of the lines.

Shapes: R rows, T elements of all words together, N elements of the group, n points.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import PurePath
from typing import Any, ClassVar

import numpy as np

from ape_cli.core.errors import DataError, UsageError, pick
from ape_cli.core.rng import I64, U64
from ape_cli.core.vocabulary import FIRST_SYMBOL, SPECIAL
from ape_cli.storage import files
from ape_cli.storage.paths import local_path
from ape_cli.tasks import Source, Tokens, option
from ape_cli.tasks._words import Sequences, random_words, single_tokens

_MAX_ELEMENTS = 256
_MAX_BYTES = 2**20  # of a file with a multiplication table
_LONGEST_NAME = 64  # characters


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
    names = [f"{prefix}{k}" for prefix in ("r", "sr") for k in range(n)]
    return Group(names, n * (flip[:, None] ^ flip) + turns)


def _symmetric(n: int) -> Group:
    """All permutations of n points."""
    return _of_permutations(list(itertools.permutations(range(n))))


def _alternating(n: int) -> Group:
    """The even permutations of n points: those with an even number of inversions."""
    every = itertools.permutations(range(n))
    return _of_permutations([p for p in every if sum(a > b for a, b in itertools.combinations(p, 2)) % 2 == 0])


def _of_permutations(permutations: list[tuple[int, ...]]) -> Group:
    """The group of permutations that are listed in lexicographic order, each as the images of the points 0..n-1."""
    images = np.array(permutations)  # [N, n]
    digits = images.shape[1] ** np.arange(images.shape[1])[::-1]
    after = images[:, images].swapaxes(0, 1)  # [N, N, n]: q[p[x]] at [p, q, x]
    return Group([cycles(p) for p in permutations], np.searchsorted(images @ digits, after @ digits))


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


def named(text: str) -> Callable[[], Group]:
    """The function that makes the group of a name such as `alternating-5`. Raises `UsageError` if there is none."""
    match = re.fullmatch(r"([a-z]+)-([0-9]{1,4})", text)
    family, n = (match[1], int(match[2])) if match else ("", 0)
    low, high, _ = _FAMILIES.get(family, (1, 0, _cyclic))
    if not low <= n <= high:
        names = ", ".join(f"{name}-{low} to {name}-{high}" for name, (low, high, _) in _FAMILIES.items())
        allowed = f"{names}; or a file with a multiplication table, such as ./table.csv"
        raise UsageError("unknown group", got=repr(text), allowed=allowed, fix="choose one of those")
    return partial(_FAMILIES[family][2], n)


def read_group(text: str) -> Group:
    """Read the multiplication table of a group from a local file.

    Raises `UsageError` if no local file can have this name, and `DataError` if the file is missing, is no regular file,
    has more than 1 MiB, or is not the table of a group.
    """
    path = local_path(text)
    try:
        table = files.read_bytes(path, _MAX_BYTES).decode("utf-8-sig")
        lines = [line.split("," if "," in table else None) for line in table.splitlines() if line.strip()]
        group = _of_entries([[entry.strip() for entry in line] for line in lines])
        check_laws(group)
    except OSError as error:
        fix = files.how_to_read(error, "name a file with the table of a group")
        raise DataError(f"cannot read the table {path}", got=error.strerror or str(error), fix=fix) from None
    except ValueError as error:
        what = f"{path} is not the multiplication table of a group"
        raise DataError(what, got=str(error), fix="correct the table") from None
    return group


def _of_entries(lines: list[list[str]]) -> Group:
    """The names and the products of a table. Raises `ValueError` if it is not square or not closed."""
    count = len(lines)
    if not 2 <= count <= _MAX_ELEMENTS or any(len(line) != count for line in lines):
        raise ValueError(f"{count} lines, not all of as many entries, or not 2 to {_MAX_ELEMENTS}")
    names = lines[0]
    if all(entry.isascii() and entry.isdecimal() for line in lines for entry in line):
        lines = [[str(int(entry)) for entry in line] for line in lines]
        names = [str(i) for i in range(count)]
    for name in names:
        is_name = name.isprintable() and 0 < len(name) <= _LONGEST_NAME and name not in SPECIAL
        if not is_name or names.count(name) > 1:
            raise ValueError(f"the first line has {name[:_LONGEST_NAME]!r} twice, or it is not a valid name")
    index = {name: i for i, name in enumerate(names)}
    for name, line in zip(names, lines, strict=True):
        for other, entry in zip(names, line, strict=True):
            if entry not in index:
                raise ValueError(f"it is not closed: {name} * {other} = {entry[:_LONGEST_NAME]}")
    return Group(names, np.array([[index[entry] for entry in line] for line in lines], dtype=np.int64))


def check_laws(group: Group) -> None:
    """Check the laws of a group, whose products are closed. Raises `ValueError` that names elements that break one."""
    names, products, number = group.names, group.products, np.arange(len(group.names))
    neutral = np.flatnonzero((products == number).all(1) & (products.T == number).all(1))
    if not neutral.size:
        raise ValueError("it has no identity: no element e with e x = x e = x for all x")
    inverse = products == neutral[0]
    lacking = np.flatnonzero(~(inverse & inverse.T).any(1))
    if lacking.size:
        raise ValueError(f"the element {names[lacking[0]]} has no inverse")
    for c in number:
        left, right = products[products, c], products[:, products[:, c]]  # (a b) c and a (b c), [N, N]
        if (left != right).any():
            a, b = np.argwhere(left != right)[0]
            raise ValueError(f"it is not associative for {names[a]}, {names[b]}, {names[c]}")


@dataclass(frozen=True, kw_only=True)
class GroupWord(Sequences):
    """Multiply the elements of a word, from left to right.

    The elements are drawn uniformly from `generators`, or from the whole group. `answers` selects the target:

    - `tags`: the product of each prefix, as a tag of its last symbol. Tag $i$ is the product of the source symbols
      $0..i$. The decoder reads the source and never an earlier answer. This is the state tracking of Merrill et al.
    - `prefixes`: the same products, written one after the other. Under teacher forcing the decoder reads the previous
      product, so each answer is a single multiplication: a lookup table of (previous product, symbol) is enough.
    - `product`: only the product of the whole word, a single symbol.

    A group has a name, as the top of this file lists them, or is defined by a multiplication table in a file. The
    manifest stores the name of the file and the digest of the table. With `sha256`, a file with a different table is
    refused.

    Raises `UsageError` if an option is out of range or a generator is not in the group, and `DataError` if the file
    does not contain the table of a group.

    >>> task = GroupWord(group="symmetric-3", length_mean=4, length_std=0)
    >>> row = task.sample(rows=range(1), split="train", seed=2).to_pylist()[0]
    >>> [task.id_names[i] for i in row["source_ids"]]
    ['(1 2)', '(0 1)', '(0 1 2)', '(0 1 2)']
    >>> [task.id_names[i] for i in row["target_ids"]]
    ['(1 2)', '(0 1 2)', '(0 2 1)', '()']
    """

    answer_options = ("group", "sha256", "answers")
    form_options = ("group", "answers", "generators")
    summary = "the product of a word over a finite group: (1 2) (0 1) -> (0 1 2)"
    source = (
        "Merrill et al. 2024, arXiv:2404.08819; Liu et al. 2023, arXiv:2210.10749; "
        "cycle navigation: Deletang et al. 2023, arXiv:2207.02098"
    )
    preset_options: ClassVar = {
        "small": {"length_mean": 8.0, "length_std": 1.0},  # what 800 steps can learn of the smallest groups
        "tiny": {"group": "symmetric-3"},
    }

    group: str = option("alternating-5", "cyclic-N, dihedral-N, symmetric-N, alternating-N, or a table in a file.")
    answers: str = option("tags", "Target: tags, prefixes or product.", among=("tags", "prefixes", "product"))
    sha256: str | None = option(None, "Expected SHA-256 of the group's table, if it is in a file.", late=True)
    generators: str | None = option(None, "Elements of words, such as 0,1,4; all if not given.", late=True)

    def __post_init__(self) -> None:
        """Check the options. Raises `UsageError` if one is bad, and `DataError` if a file is not a group's table."""
        super().__post_init__()
        if not is_file(self.group):
            named(self.group)
            if self.sha256 is not None:
                raise UsageError("only a group in a file has a digest", got=self.group, fix="leave sha256 out")
        if self.sha256 is None and (is_file(self.group) or self.generators is not None):
            _ = self.drawn

    @cached_property
    def elements(self) -> Group:
        """The group. Raises `DataError` if its file cannot be read, or has another table than the one of `sha256`."""
        if not is_file(self.group):
            return named(self.group)()
        group = read_group(self.group)
        if self.sha256 not in (None, group.sha256):
            allowed = f"sha256 {self.sha256}"
            raise DataError(f"{self.group} contains a different table", got=f"sha256 {group.sha256}", allowed=allowed)
        return group

    @cached_property
    def drawn(self) -> I64:
        """The elements that words are drawn from. Raises `UsageError` if one is not in the group, or is given twice."""
        names = self.elements.names
        if self.generators is None:
            return np.arange(len(names))
        given = [pick("generator", name.strip(), names) for name in self.generators.split(",")]
        if len(set(given)) < len(given):
            raise UsageError("a generator is given twice", got=self.generators, fix="give each element once")
        return np.array([names.index(name) for name in given])

    @property
    def parameters(self) -> dict[str, Any]:
        """The options, as the manifest keeps them: a file by its name and the digest of its table."""
        parameters = super().parameters
        if is_file(self.group):
            parameters |= {"group": f"./{PurePath(self.group).name}", "sha256": self.elements.sha256}
        return parameters

    @property
    def tagged(self) -> bool:
        """Whether the products are tags of the source."""
        return self.answers == "tags"

    def symbols(self) -> list[str]:
        """The names of the group's elements, which have the ids from 3 on."""
        return self.elements.names

    def draw(self, key: U64) -> Source:
        """Draw one word for each key. uint64 [R] -> `Source` of R rows"""
        word = random_words(key, self.length_mean, self.length_std, self.drawn.size)
        return replace(word, symbol=FIRST_SYMBOL + self.drawn[word.symbol - FIRST_SYMBOL])

    def target(self, source: Source) -> Tokens:
        """The target of each source: the products of all prefixes, or of the last one."""
        products = self.elements.products
        element = source.symbol - FIRST_SYMBOL
        state = element[source.offsets[:-1]]  # [R], the product so far
        symbol = element.copy()  # [T], of all prefixes
        for index in range(1, int(source.size.max(initial=1))):
            row = np.flatnonzero(source.size > index)
            here = source.offsets[row] + index
            state[row] = symbol[here] = products[state[row], element[here]]
        symbol += FIRST_SYMBOL
        if self.answers == "product":
            return single_tokens(symbol[source.offsets[1:] - 1])
        return Tokens(source.offsets, source.position, symbol)
