"""The trees of a user's source, as the task `trees` uses them: filtered, labelled, without copies in two splits.

- Trees that are too large, or do not fit the heap indices of their stored form, are left out and counted.
- Splits are by document (a file, or a part of a file): about 10% of the trees for test and 10% for validation, in the
  order of their digests. If there are fewer than three documents, their trees are divided into contiguous parts.
- Trees of equal shape and labels are in the same split: the training split if one of them belongs there.
- Labels are numbered by frequency in the training documents. Rarer labels become `<unknown>`.

Shapes: R trees, T nodes in all.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from ape_cli.core import ragged, rng
from ape_cli.core.errors import DataError
from ape_cli.core.numbers import counted
from ape_cli.core.rng import I64, U64
from ape_cli.core.vocabulary import SPLITS
from ape_cli.storage.tree_formats import ParsedTree
from ape_cli.storage.tree_sources import TreeSource, check_count
from ape_cli.structure import Tree
from ape_cli.structure.trees import RankedTrees
from ape_cli.tasks._base import option

UNKNOWN = "<unknown>"
_NAMED = 10  # files that are left out and named in notes
_MAX_BYTES = 7 * 2**20  # of all labels as JSON, so that the record of a run can have them
_HELD_OUT, _MAX_HELD_OUT = 0.1, 0.2  # shares of the trees that are held out for test, and as many for validation


@dataclass(frozen=True, kw_only=True)
class TreeOptions:
    """The options of a task on users' own trees."""

    where: str | None = option(None, "Your own trees: a file, a folder or a pattern.", name="source")
    format: str | None = option(None, "json, json-lines, python, s-expr, conllu, xml, html or tree-sitter-LANGUAGE.")
    unit: str | None = option(None, "file, function, sentence, document or subtree; the default depends on the format.")
    column: str | None = option(None, "Text column of Parquet files.")
    skip_bad: bool = option(False, "Skip files that cannot be read.")
    task: str = option(
        "copy", "Task: copy, rotate, query, convert or mask.", among=("copy", "rotate", "query", "convert", "mask")
    )
    labels: str = option("kind", "Node labels: kind, token or anonymous.", among=("kind", "token", "anonymous"))
    vocabulary: int = option(1000, "Number of symbols.", between=(1, 60_000))
    min_count: int = option(1, "Minimum count of a label in training; rarer labels become unknown.", between=(1, 10**9))
    branching: int | None = option(None, "Maximum number of children; wider trees are left out.", between=(2, 1000))
    binarise: bool = option(True, "Without `--branching`: binary trees (left: first child, right: next sibling).")
    most_nodes: int = option(256, "Maximum number of nodes; larger trees are left out.", between=(2, 100_000))
    mask_rate: float = option(0.15, "Share of labels that mask hides; roots and `<unknown>` are never hidden.")

    @property
    def stored(self) -> int:
        """The branching of the stored trees."""
        return self.branching or 2


@dataclass(frozen=True)
class LabelledTrees:
    """Trees with labels."""

    trees: RankedTrees
    label: I64  # [T]
    key: U64  # [R], the stream of each tree's random draws

    @property
    def mean_tokens(self) -> float:
        """The mean number of nodes of a tree."""
        return self.label.size / max(1, len(self))

    def __len__(self) -> int:
        """The number of trees."""
        return self.key.size

    def take(self, rows: I64) -> Self:
        """The chosen trees, in the given order. `rows`: int64 [N], counted from the first one."""
        trees, index = self.trees.take(rows)
        return replace(self, trees=trees, label=self.label[index], key=self.key[rows])


@dataclass(frozen=True)
class Corpus(LabelledTrees):
    """The trees that are left of a source, in its order.

    Labels are indices into `names`; anonymous ones are numbered in each tree by their first occurrence. The key of a
    tree is a hash of the tree, and of how many equal ones come before it.
    """

    names: list[str]  # of the labels
    split: I64  # [R], the split of each tree, as an index into `SPLITS`
    documents: int
    read: int  # trees before any was left out
    dropped: dict[str, int]  # reason -> trees
    copies: int  # trees that are equal to an earlier one


def corpus(source: TreeSource, task: TreeOptions) -> Corpus:
    """Filter, divide and label the trees of a source. Raises `DataError` if too few trees remain for three splits."""
    dropped: Counter[str] = Counter()
    kept: list[ParsedTree] = []
    documents: list[tuple[int, int]] = []
    read = nodes = 0
    subtrees = task.unit == "subtree"  # whether each subtree is a tree of its own
    max_levels = Tree(task.stored).max_depth - (task.task == "query")  # a query puts the tree below a root
    for file, document, whole in source.trees:
        for tree in _subtrees(whole, task.most_nodes) if subtrees else (whole,):
            read += 1
            if reason := _reason(tree, task, max_levels):
                dropped[reason] += 1
                continue
            kept.append(tree)
            documents.append((file, document))
            nodes += len(tree.parent)
            check_count(len(kept), nodes)
    larger = "choose a larger source, another `unit`, or options that leave out fewer trees"
    if source.formats == ["json"] and any(tree.kind[0] == "array" for _, _, tree in source.trees):
        larger = "write one object per line into a `.jsonl` file: each line is a tree"
        larger += ", with labels if it has only the keys `label` and `children`"
        larger += "; `labels=token` keeps its values" * (task.labels == "kind")
    if len(kept) < len(SPLITS):
        left_out = [f"left out: {counted(count, 'tree')} with {reason}" for reason, count in dropped.most_common()]
        got = "; ".join([f"{len(kept)} of {counted(read, 'tree')} in {counted(len(source.files), 'file')}", *left_out])
        raise DataError("too few trees remain for three splits", got=got, allowed=f"at least {len(SPLITS)}", fix=larger)
    if subtrees and len(set(documents)) < len(SPLITS):
        got = counted(len(set(documents)), "document")
        raise DataError("subtrees of one tree would be in several splits", got=got, fix=larger)
    division = divided(source, documents)
    trees = _flat(kept)
    texts = [t.token if task.labels == "token" else t.kind for t in kept]
    if task.labels == "anonymous":
        label, names = _anonymous(texts), list[str]()
    else:
        label, names = _numbered(texts, division == SPLITS.index("train"), task)
    split, key, copies = together(trees, label, division)
    whole_corpus = Corpus(trees, label, key, names, split, len(set(documents)), read, dict(dropped), copies)
    return _with_labels_to_hide(whole_corpus, task.mask_rate) if task.task == "mask" else whole_corpus


def _subtrees(tree: ParsedTree, maximum: int) -> Iterator[ParsedTree]:
    """Every subtree with 2 to `maximum` nodes, as a tree of its own."""
    count = [1] * len(tree.parent)
    for node in range(len(tree.parent) - 1, 0, -1):
        count[tree.parent[node]] += count[node]
    for first, nodes in enumerate(count):
        if 1 < nodes <= maximum:
            yield tree.subtree(first, nodes)


def _reason(tree: ParsedTree, task: TreeOptions, max_levels: int) -> str | None:
    """Why a tree is left out; None if it is kept. A query needs a node below the root."""
    nodes = len(tree.parent)
    if nodes > task.most_nodes:
        return f"more than {task.most_nodes:,} nodes (`most_nodes`)"
    if nodes < 2 and task.task == "query":
        return "fewer than 2 nodes"
    if task.branching is not None and max(tree.ranks()) >= task.branching:
        return f"a node with more than {task.branching} children (`branching`)"
    if tree.levels(binarised=task.branching is None) > max_levels:
        return f"more than {max_levels} levels as it is stored"
    if task.labels == "anonymous" and len(set(tree.kind)) > task.vocabulary:
        return f"more than {task.vocabulary:,} different labels (`vocabulary`)"
    return None


def maskable(offsets: I64, label: I64, *, anonymous: bool) -> np.ndarray:
    """Whether the label of each node may be hidden: not that of a root, and not `<unknown>`, which is label 0.

    `offsets`: int64 [R+1]; `label`: int64 [T]; `anonymous`: whether no label is unknown. Returns bool [T].
    """
    below = ragged.indices_of(offsets) > 0
    return below if anonymous else below & (label != 0)


def _with_labels_to_hide(whole: Corpus, mask_rate: float) -> Corpus:
    """The trees in which `mask` hides at least one label. Raises `DataError` if there are none for training."""
    may = maskable(whole.trees.offsets, whole.label, anonymous=not whole.names)
    kept = np.flatnonzero(mask_rate * np.add.reduceat(may, whole.trees.offsets[:-1], dtype=np.int64) >= 1)
    minimum = math.ceil(1 / mask_rate)
    if not (whole.split[kept] == SPLITS.index("train")).any():
        allowed = f"trees with {minimum} labels or more, without the root and {UNKNOWN}"
        what = f"no training tree has enough labels to hide one at a `mask_rate` of {mask_rate:g}"
        raise DataError(what, allowed=allowed, fix="choose larger trees, or a larger `mask_rate`")
    left_out = len(whole) - kept.size
    reason = {f"fewer than {minimum} labels that may be hidden (`mask_rate`)": left_out} if left_out else {}
    return replace(whole.take(kept), split=whole.split[kept], dropped=whole.dropped | reason)


def _flat(trees: list[ParsedTree]) -> RankedTrees:
    """The trees as flat arrays."""
    offsets = ragged.offsets_of(np.array([len(tree.parent) for tree in trees]))
    parent = np.array([parent for tree in trees for parent in tree.parent], dtype=np.int64)
    return RankedTrees(offsets, parent, np.array([rank for tree in trees for rank in tree.ranks()], dtype=np.int64))


def _numbered(texts: list[list[str]], training: np.ndarray, task: TreeOptions) -> tuple[I64, list[str]]:
    """The number of each node's label, int64 [T], and the labels by number. Number 0 is `UNKNOWN`.

    `training`: bool [R], whether a tree is in a document of the training split. Only those are counted.

    Raises `DataError` if the labels are too long together.
    """
    counts = Counter(
        text for labels, counted in zip(texts, training.tolist(), strict=True) if counted for text in labels
    )
    frequent = [(-count, text) for text, count in counts.items() if count >= task.min_count]
    chosen = [text for _, text in sorted(frequent)[: task.vocabulary]]
    # a label that is empty, has odd characters or looks like a name of ours is quoted
    plain = [text.isprintable() and not re.fullmatch(r"|label .*|<.*>", text) for text in chosen]
    names = [UNKNOWN, *(text if is_plain else f"label {text!r}" for text, is_plain in zip(chosen, plain, strict=True))]
    if (size := len(json.dumps(names, indent=2, ensure_ascii=False).encode())) > _MAX_BYTES:
        got, fix = f"{size:,} bytes in {len(chosen):,} labels", "choose a smaller `vocabulary`, or other `labels`"
        raise DataError("the labels are too long", got=got, allowed=f"{_MAX_BYTES:,} bytes", fix=fix)
    number = {text: i for i, text in enumerate(chosen, 1)}
    return np.array([number.get(text, 0) for labels in texts for text in labels], dtype=np.int64), names


def _anonymous(texts: list[list[str]]) -> I64:
    """The labels of each tree, numbered from 0 by their first occurrence. int64 [T]"""
    flat: list[int] = []
    for labels in texts:
        number: dict[str, int] = {}
        flat += [number.setdefault(text, len(number)) for text in labels]
    return np.array(flat, dtype=np.int64)


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
        order = sorted(range(len(distinct)), key=lambda i: (hashlib.sha256(texts[i].encode()).digest(), i))
        index = {document: i for i, document in enumerate(distinct)}
        owner = np.array([index[document] for document in documents])
    sizes = np.bincount(owner).tolist()
    split = np.full(len(sizes), SPLITS.index("train"))
    for number, left in ((SPLITS.index("test"), 2), (SPLITS.index("validation"), 1)):
        held = held_out(order, sizes, len(documents), left)
        split[held] = number
        order = [document for document in order if split[document] != number]
    return split[owner]


def held_out(order: list[int], sizes: list[int], trees: int, left: int) -> list[int]:
    """The documents to hold out of those in `order`: the first ones that have a tenth of all trees together.

    `sizes` has the number of trees of each document. A document that would make it more than a fifth is passed over. If
    all of them would, the smallest one is held out. At least `left` documents are not held out.
    """
    held, total = list[int](), 0
    for document in order:
        if total >= _HELD_OUT * trees or len(held) == len(order) - left:
            break
        if total + sizes[document] <= _MAX_HELD_OUT * trees:
            held.append(document)
            total += sizes[document]
    return held or [min(order, key=lambda document: sizes[document])]


def together(trees: RankedTrees, label: I64, division: I64) -> tuple[I64, U64, int]:
    """Put equal trees into one split. `label`: int64 [T]; `division`: int64 [R].

    Returns the split of each tree, int64 [R]; a key for each tree, uint64 [R]; and how many trees equal an earlier one.
    """
    content = np.stack([trees.parent, trees.rank, label], axis=1)
    split_of: dict[bytes, int] = {}
    digests: list[bytes] = []
    before: list[int] = []  # how many equal trees come before each tree
    seen: Counter[bytes] = Counter()
    for tree, split in enumerate(division.tolist()):
        rows = content[trees.offsets[tree] : trees.offsets[tree + 1]]
        digest = hashlib.blake2b(rows.tobytes(), digest_size=16).digest()
        split_of[digest] = min(split_of.get(digest, split), split)  # training comes first
        digests.append(digest)
        before.append(seen[digest])
        seen[digest] += 1
    first = np.array([int.from_bytes(digest[:8], "little") for digest in digests], dtype=np.uint64)
    return np.array([split_of[d] for d in digests]), rng.bits(first, np.array(before)), len(digests) - len(seen)


def described(source: TreeSource, chosen: Corpus, collisions: int) -> list[str]:
    """Lines of text about what was read and left out. `collisions` is the number of rows left out by `mask`."""
    plain = source.formats[0].startswith("json") and source.trees[0][2].kind[0] in ("object", "array")
    what = f"{', '.join(source.formats)}{' without labels' * plain}, unit {source.unit}"
    where = f"{counted(chosen.documents, 'document')} in {counted(len(source.files), 'file')} ({what})"
    lines = [f"{len(chosen):,} of {counted(chosen.read, 'tree')} from {where}"]
    for reason, count in sorted(chosen.dropped.items(), key=lambda item: -item[1]):
        lines.append(f"left out: {counted(count, 'tree')} ({count / chosen.read:.1%}) with {reason}")
    if source.others:
        lines.append(f"left out: {counted(source.others, 'file')} with other suffixes")
    if chosen.documents < len(SPLITS):
        lines.append("the source has fewer than 3 documents, so its trees are divided into three contiguous parts")
    if chosen.copies:
        copies = counted(chosen.copies, "tree")
        lines.append(f"equal to an earlier one, and in the same split: {copies} (rare labels count as {UNKNOWN})")
    if chosen.names and not chosen.label.all():
        split = np.repeat(chosen.split, np.diff(chosen.trees.offsets))
        unknown, nodes = (np.bincount(s, minlength=len(SPLITS)) for s in (split[chosen.label == 0], split))
        shares = zip(SPLITS, unknown / np.maximum(nodes, 1), strict=True)
        lines.append(f"nodes whose label is {UNKNOWN}: " + ", ".join(f"{name} {share:.1%}" for name, share in shares))
    if collisions:
        rows = counted(collisions, "row")
        lines.append(f"left out: {rows} whose source, with hidden labels, is that of another split too")
    lines += [f"left out: {path}: {reason}" for path, reason in source.skipped[:_NAMED]]
    if len(source.skipped) > _NAMED:
        lines.append(f"left out: {len(source.skipped) - _NAMED:,} more files or parts of files")
    return lines
