"""The trees of a user's source, as the task `trees` uses them: filtered, labelled, without copies in two splits.

- Trees that are too large, or that do not fit the heap indices of their stored form, are left out and counted.
- Documents are divided among the splits, and copies are kept together (`_tree_splits.py`).
- Labels are numbered by their frequency in the documents of the training split. Rarer ones are `<unknown>`.

Shapes: R trees, T nodes in all.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ape_cli.core import ragged
from ape_cli.core.errors import DataError
from ape_cli.core.rng import I64, U64
from ape_cli.core.vocabulary import SPLITS
from ape_cli.storage.tree_formats import ParsedTree
from ape_cli.storage.tree_sources import TreeSource, check_count
from ape_cli.structure.ranked_trees import RankedTrees
from ape_cli.tasks._tree_portion import maskable
from ape_cli.tasks._tree_splits import divided, together

UNKNOWN = "<unknown>"
_NAMED = 10  # files that are left out and named in notes
_LONGEST = 80  # characters of a label


@dataclass(frozen=True)
class Choice:
    """Which trees and labels of a source are taken."""

    labels: str  # kind, token or anonymous
    vocabulary: int  # the most labels that get a symbol of their own
    min_count: int  # how often a label occurs at least to get one
    branching: int | None  # of the stored trees; None: binarised
    most_levels: int  # of the stored trees
    least_nodes: int
    most_nodes: int
    subtrees: bool  # whether each subtree is a tree of its own
    mask_rate: float | None  # the share of labels to hide, at least one in each tree


@dataclass(frozen=True)
class Corpus:
    """The trees that are left of a source."""

    trees: RankedTrees  # in the order of the source
    label: I64  # [T], index into `names`; for anonymous labels, numbered in each tree by their first occurrence
    names: list[str]  # of the labels
    key: U64  # [R], the stream of each tree's random draws: a hash of the tree, and how many equal ones come before it
    home: I64  # [R], the split of each tree, as an index into `SPLITS`
    documents: int
    read: int  # trees before any was left out
    dropped: dict[str, int]  # reason -> trees
    copies: int  # trees that are equal to an earlier one
    moved: int  # trees of held-out documents that are in another split, because an equal tree is there


def corpus(source: TreeSource, choice: Choice) -> Corpus:
    """Filter, divide and label the trees of a source. Raises `DataError` if too few trees are left for three splits."""
    dropped: Counter[str] = Counter()
    kept: list[ParsedTree] = []
    documents: list[tuple[int, int]] = []
    read = nodes = 0
    for file, document, whole in source.trees:
        for tree in _subtrees(whole, choice.most_nodes) if choice.subtrees else (whole,):
            read += 1
            if reason := _reason(tree, choice):
                dropped[reason] += 1
                continue
            kept.append(tree)
            documents.append((file, document))
            nodes += len(tree.parent)
            check_count(len(kept), nodes)
    if len(kept) < len(SPLITS):
        raise _too_few(source, len(kept), dropped, choice)
    if choice.subtrees and len(set(documents)) < len(SPLITS):
        raise DataError(
            "subtrees of one tree would be in several splits",
            got=_count(len(set(documents)), "document"),
            allowed=f"at least {len(SPLITS)} for --unit subtree",
            fix="choose a larger source, or another --unit",
        )
    division = divided(source, documents)
    trees = _flat(kept)
    texts = [t.token if choice.labels == "token" else t.kind for t in kept]
    if choice.labels == "anonymous":
        label, names = _anonymous(texts), list[str]()
    else:
        label, names = _numbered(texts, division == SPLITS.index("train"), choice)
    home, key, copies = together(trees, label, division)
    moved = int((home != division).sum())
    whole_corpus = Corpus(trees, label, names, key, home, len(set(documents)), read, dict(dropped), copies, moved)
    return whole_corpus if choice.mask_rate is None else _with_labels_to_hide(whole_corpus, choice.mask_rate)


def _subtrees(tree: ParsedTree, most: int) -> Iterator[ParsedTree]:
    """Every subtree with 2 to `most` nodes, as a tree of its own."""
    count = [1] * len(tree.parent)
    for node in range(len(tree.parent) - 1, 0, -1):
        count[tree.parent[node]] += count[node]
    for first, nodes in enumerate(count):
        if 1 < nodes <= most:
            yield tree.subtree(first, nodes)


def _reason(tree: ParsedTree, choice: Choice) -> str | None:
    """Why a tree is left out; None if it is kept."""
    nodes = len(tree.parent)
    if nodes > choice.most_nodes:
        return f"more than {choice.most_nodes:,} nodes (--most-nodes)"
    if nodes < choice.least_nodes:
        return f"fewer than {choice.least_nodes} nodes"
    if choice.branching is not None and max(tree.ranks()) >= choice.branching:
        return f"a node with more than {choice.branching} children (--branching)"
    if tree.levels(binarised=choice.branching is None) > choice.most_levels:
        return f"more than {choice.most_levels} levels as it is stored"
    if choice.labels == "anonymous" and len(set(tree.kind)) > choice.vocabulary:
        return f"more than {choice.vocabulary:,} different labels (--vocabulary)"
    return None


def _too_few(source: TreeSource, trees: int, dropped: Counter[str], choice: Choice) -> DataError:
    """The error for a source that has too few trees left for three splits."""
    read = f"{_count(trees, 'tree')}, from {_count(len(source.files), 'file')} ({', '.join(source.formats)})"
    left_out = [f"{count:,} {'has' if count == 1 else 'have'} {reason}" for reason, count in dropped.most_common()]
    return DataError(
        "too few trees are left for three splits",
        got="; ".join([f"{read}; one tree is a {source.unit}", *left_out]),
        allowed=f"at least {len(SPLITS)}",
        fix="choose a larger source, another --unit or other options"
        + (" (--binarise fits trees with many children)" if choice.branching else ""),
    )


def _with_labels_to_hide(whole: Corpus, mask_rate: float) -> Corpus:
    """The trees in which `mask` hides at least one label. Raises `DataError` if there are none for training."""
    may = maskable(whole.trees.starts, whole.label, anonymous=not whole.names)
    kept = np.flatnonzero(mask_rate * np.add.reduceat(may, whole.trees.starts[:-1], dtype=np.int64) >= 1)
    least = math.ceil(1 / mask_rate)
    if not (whole.home[kept] == SPLITS.index("train")).any():
        raise DataError(
            "no tree for training has enough labels to hide one of them",
            got=f"mask_rate {mask_rate:g}",
            allowed=f"trees with {least} labels or more, without the root and {UNKNOWN}",
            fix="choose larger trees, or a larger --mask-rate",
        )
    trees, place = whole.trees.take(kept)
    left_out = whole.key.size - kept.size
    reason = {f"fewer than {least} labels that may be hidden (--mask-rate)": left_out} if left_out else {}
    return replace(
        whole,
        trees=trees,
        label=whole.label[place],
        key=whole.key[kept],
        home=whole.home[kept],
        dropped=whole.dropped | reason,
    )


def _count(number: int, what: str) -> str:
    """A number of things, with their name.

    >>> _count(1, "tree"), _count(2000, "file")
    ('1 tree', '2,000 files')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _flat(trees: list[ParsedTree]) -> RankedTrees:
    """The trees as flat arrays."""
    starts = ragged.starts_of(np.array([len(tree.parent) for tree in trees]))
    parent = np.array([parent for tree in trees for parent in tree.parent], dtype=np.int64)
    return RankedTrees(starts, parent, np.array([rank for tree in trees for rank in tree.ranks()], dtype=np.int64))


def _numbered(texts: list[list[str]], training: np.ndarray, choice: Choice) -> tuple[I64, list[str]]:
    """The number of each node's label, int64 [T], and the labels by number. Number 0 is `UNKNOWN`.

    `training`: bool [R], whether a tree is in a document of the training split. Only those are counted.
    """
    counts: Counter[str] = Counter()
    for labels, counted in zip(texts, training.tolist(), strict=True):
        if counted:
            counts.update(map(_short, labels))
    frequent = [(-count, text) for text, count in counts.items() if count >= choice.min_count]
    chosen = [text for _, text in sorted(frequent)[: choice.vocabulary]]
    number = {text: at for at, text in enumerate(chosen, 1)}
    flat = [number.get(_short(text), 0) for labels in texts for text in labels]
    return np.array(flat, dtype=np.int64), [UNKNOWN, *_readable(chosen)]


def _short(text: str) -> str:
    """A label of at most 80 characters."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _readable(labels: list[str]) -> list[str]:
    """Names for labels: the labels themselves, unless one is empty, has odd characters or looks like a name of ours."""
    own = (label.startswith("label ") or (label[:1] == "<" and label[-1:] == ">") for label in labels)
    return [
        f"label {label!r}" if is_own or not label or not label.isprintable() else label
        for label, is_own in zip(labels, own, strict=True)
    ]


def _anonymous(texts: list[list[str]]) -> I64:
    """The labels of each tree, numbered from 0 by their first occurrence. int64 [T]"""
    flat: list[int] = []
    for labels in texts:
        number: dict[str, int] = {}
        flat += [number.setdefault(text, len(number)) for text in labels]
    return np.array(flat, dtype=np.int64)


def described(source: TreeSource, chosen: Corpus, collisions: int) -> list[str]:
    """Lines of text about what was read of a source, and what was left out.

    `collisions` is the number of rows that were left out later, because their sources equal those of another split.
    """
    what = f"{', '.join(source.formats)}, unit {source.unit}"
    where = f"{_count(chosen.documents, 'document')} in {_count(len(source.files), 'file')} ({what})"
    lines = [f"{chosen.key.size:,} of {_count(chosen.read, 'tree')} from {where}"]
    for reason, count in sorted(chosen.dropped.items(), key=lambda each: -each[1]):
        lines.append(f"left out: {_count(count, 'tree')} ({count / chosen.read:.1%}) with {reason}")
    if chosen.documents < len(SPLITS):
        lines.append("the source has fewer than 3 documents, so its trees are divided in three contiguous parts")
    if chosen.copies:
        alike = f"with the form and the labels of an earlier one, where rare labels are all {UNKNOWN}"
        lines.append(f"{_count(chosen.copies, 'tree')} {alike}; such trees are in the same split")
    if chosen.moved:
        what = "so parts of these documents are there"
        lines.append(f"{_count(chosen.moved, 'tree')} of held-out documents went to the split of an equal tree, {what}")
    if chosen.names and not chosen.label.all():
        split = np.repeat(chosen.home, np.diff(chosen.trees.starts))
        unknown, nodes = (np.bincount(each, minlength=len(SPLITS)) for each in (split[chosen.label == 0], split))
        shares = zip(SPLITS, unknown / np.maximum(nodes, 1), strict=True)
        lines.append(f"nodes whose label is {UNKNOWN}: " + ", ".join(f"{name} {share:.1%}" for name, share in shares))
    if collisions:
        rows = _count(collisions, "row")
        lines.append(f"left out: {rows} whose source, with hidden labels, is that of another split too")
    if source.skipped:
        lines.append(f"left out: {_count(len(source.skipped), 'file')} or parts of files")
        lines += [f"left out: {path}: {reason}" for path, reason in source.skipped[:_NAMED]]
        if len(source.skipped) > _NAMED:
            lines.append(f"left out: {len(source.skipped) - _NAMED:,} more")
    return lines
