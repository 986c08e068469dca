"""What every format of trees gives: its trees as parallel lists of parents, ranks and labels.

Shapes: N nodes of a tree.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Literal

Unit = Literal["file", "document", "function", "sentence", "subtree"]


@dataclass
class ParsedTree:
    """One tree of a source, in pre-order: a node comes before its children, and the first node is the root."""

    document: int = 0  # number of the document in its file, from 0
    parent: list[int] = field(default_factory=list)  # [N] number of each node's parent; -1 for the root
    rank: list[int] = field(default_factory=list)  # [N] place of each node among its siblings, from 0; 0 for the root
    kind: list[str] = field(default_factory=list)  # [N] what each node is, for example `Call`
    token: list[str] = field(default_factory=list)  # [N] the text of each node if it has one, for example `print`

    def __post_init__(self) -> None:
        """Count the children of the nodes that are there."""
        self._children = [0] * len(self.parent)
        for parent in self.parent:
            if parent >= 0:
                self._children[parent] += 1

    def add(self, parent: int, kind: str, token: str | None = None) -> int:
        """Add a node as the last child of `parent`; -1 adds the root. Returns its number.

        A node without a text of its own has its kind as its token. Nodes have to be added in pre-order.
        """
        self.parent.append(parent)
        self.rank.append(self._children[parent] if parent >= 0 else 0)
        self.kind.append(kind)
        self.token.append(kind if token is None else token)
        self._children.append(0)
        if parent >= 0:
            self._children[parent] += 1
        return len(self.parent) - 1


class TreeFormat(ABC):
    """A format of files that have trees. The file's stem in this folder is the name for `--format`."""

    suffixes: ClassVar[tuple[str, ...]] = ()  # of the files that have this format: `.py`
    units: ClassVar[tuple[Unit, ...]]  # what one tree can be, the default first; `subtree` is possible for all
    needs: ClassVar[str | None] = None  # a package that the format needs and that ape-cli does not install
    extra: ClassVar[str | None] = None  # the extra of ape-cli that installs it

    @abstractmethod
    def trees(self, content: bytes, unit: Unit) -> Iterator[ParsedTree]:
        """The trees of a file, one for each `unit`, in the order of the file.

        Raises `DataError` if the content is not of this format. The caller adds the name of the file.
        """
