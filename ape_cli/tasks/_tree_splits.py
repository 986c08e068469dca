"""The division of a user's trees among the splits.

- Documents are divided among the splits: those with about a tenth of the trees are held out for test, and as many for
  validation. A document is a file, or a part of a file that its format calls a document. The order of the documents'
  digests decides, so the division depends on nothing but the content of the source. A document that has more than a
  fifth of the trees is held out only if there is no other. If there are fewer than three documents, the trees
  themselves are divided, in three contiguous parts.
- Trees that are equal in shape and labels are in one split, so that no test tree is also a training tree. If one of
  them is in a document for training, all of them are training trees.

Shapes: R trees, T nodes in all.
"""

from __future__ import annotations

import hashlib
from collections import Counter

import numpy as np

from ape_cli.core import rng
from ape_cli.core.rng import I64, U64
from ape_cli.core.vocabulary import SPLITS
from ape_cli.storage.tree_sources import TreeSource
from ape_cli.structure.ranked_trees import RankedTrees

_HELD_OUT, _MOST_HELD_OUT = 0.1, 0.2  # shares of the trees that are held out for test, and as many for validation


def divided(source: TreeSource, documents: list[tuple[int, int]]) -> I64:
    """The split of the document of each tree, as an index into `SPLITS`: int64 [R].

    `documents` has the numbers of the file and of the document of each tree. There are at least three trees.
    """
    distinct = list(dict.fromkeys(documents))
    if len(distinct) < len(SPLITS):
        order = list(range(len(documents)))  # the trees themselves, in their order
        owner = np.array(order)
    else:
        digests = list(source.files.values())
        texts = [f"{digests[file]} {document}" for file, document in distinct]
        order = sorted(range(len(distinct)), key=lambda each: (hashlib.sha256(texts[each].encode()).digest(), each))
        place = {each: at for at, each in enumerate(distinct)}
        owner = np.array([place[each] for each in documents])
    sizes = np.bincount(owner).tolist()
    home = np.full(len(sizes), SPLITS.index("train"))
    for number, left in ((SPLITS.index("test"), 2), (SPLITS.index("validation"), 1)):
        held = held_out(order, sizes, len(documents), left)
        home[held] = number
        order = [each for each in order if home[each] != number]
    return home[owner]


def held_out(order: list[int], sizes: list[int], trees: int, left: int) -> list[int]:
    """The documents to hold out of those in `order`: the first ones that have a tenth of all trees together.

    `sizes` has the number of trees of each document. A document that would make it more than a fifth is passed over. If
    all of them would, the smallest one is held out. At least `left` documents are not held out.
    """
    held, total = list[int](), 0
    for each in order:
        if total >= _HELD_OUT * trees or len(held) == len(order) - left:
            break
        if total + sizes[each] <= _MOST_HELD_OUT * trees:
            held.append(each)
            total += sizes[each]
    return held or [min(order, key=lambda each: sizes[each])]


def together(trees: RankedTrees, label: I64, division: I64) -> tuple[I64, U64, int]:
    """Put equal trees into one split. `label`: int64 [T]; `division`: int64 [R].

    Returns the split of each tree, int64 [R]; a key for each tree, uint64 [R]; and how many trees equal an earlier one.
    """
    content = np.stack([trees.parent, trees.rank, label], axis=1)
    home: dict[bytes, int] = {}
    digests: list[bytes] = []
    before: list[int] = []  # how many equal trees come before each tree
    seen: Counter[bytes] = Counter()
    for tree, split in enumerate(division.tolist()):
        rows = content[trees.starts[tree] : trees.starts[tree + 1]]
        digest = hashlib.blake2b(rows.tobytes(), digest_size=16).digest()
        home[digest] = min(home.get(digest, split), split)  # training comes first
        digests.append(digest)
        before.append(seen[digest])
        seen[digest] += 1
    first = np.array([int.from_bytes(digest[:8], "little") for digest in digests], dtype=np.uint64)
    return np.array([home[d] for d in digests]), rng.bits(first, np.array(before)), len(digests) - len(seen)
