"""Formats of tree files, each a single file. The name of a format is that of its file, with `-` for `_`.

| format | a tree is | kind | token |
|---|---|---|---|
| `conllu` | a sentence | dependency relation | form |
| `html`, `xml` | a document | tag, `@attribute`, `#text` | value of the attribute, text |
| `json`, `json-lines` | a document | label, else `object`, `key` … | label, else JSON text |
| `python` | an outermost function | class of the syntax tree | name or constant |
| `s-expr` | an expression in brackets (sentence) | label, `#atom`, `#list` | label or atom |
| `tree-sitter-LANGUAGE` | a file | type of the node | text of a leaf |

With the unit `file`, every format joins the trees of a file under a single root. Files are never executed. A file that
is damaged, deeply nested or too large raises `DataError`.

Shapes: N nodes of a tree.
"""

from __future__ import annotations

import codecs
import pkgutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import PurePath
from typing import Any, ClassVar, Literal

from ape_cli.core import plugins, user_parts
from ape_cli.core.errors import DataError, UsageError, brief, unknown
from ape_cli.core.extras import how_to_get

__path__ = pkgutil.extend_path(__path__, __name__)  # formats may be in another ape_cli/storage/tree_formats too

_MOST_NODES = 2_000_000  # of a tree
Unit = Literal["file", "document", "function", "sentence", "subtree"]

# encodings whose decoder is slow, executes escapes, or gives characters that no file can store
_REFUSED = frozenset({"idna", "punycode", "raw-unicode-escape", "unicode-escape", "utf-7"})


@dataclass(slots=True)
class ParsedTree:
    """One tree of a source, in pre-order: a node comes before its children, and the first node is the root."""

    document: int = 0  # number of the document in its file, from 0
    parent: list[int] = field(default_factory=list)  # [N] number of each node's parent; -1 for the root
    kind: list[str] = field(default_factory=list)  # [N] what each node is, for example `Call`
    token: list[str] = field(default_factory=list)  # [N] the text of each node if it has one, for example `print`

    def add(self, parent: int, kind: str, token: str | None = None) -> int:
        """Add a node as the last child of `parent`; -1 adds the root. Returns its number.

        A node without a text of its own has its kind as its token. Nodes have to be added in pre-order.

        Raises `DataError` if the tree gets too many nodes.
        """
        if len(self.parent) >= _MOST_NODES:
            raise DataError(f"a tree has more than {_MOST_NODES:,} nodes")
        self.parent.append(parent)
        self.kind.append(kind)
        self.token.append(token or kind)
        return len(self.parent) - 1

    def check(self, number: int = 1) -> None:
        """Check the lists, because a format may fill them itself. `number` is that of the tree in its file, from 1.

        >>> ParsedTree(parent=[-1, -1], kind=["a", "b"], token=["a", "b"]).check(3)
        Traceback (most recent call last):
        ape_cli.core.errors.DataError: tree 3 is malformed
          got:     node 1 has the parent -1
          allowed: -1 for node 0 alone; for another node, the node before it or one above that
          fix:     correct the format

        Raises `DataError` if they are no tree in pre-order.
        """
        what, fix = f"tree {number:,} is malformed", "correct the format"
        for name, of in (("parent", Integral), ("kind", str), ("token", str)):
            column: Any = getattr(self, name)
            is_list = isinstance(column, list) and all(isinstance(value, of) for value in column)
            if not is_list or not 0 < len(column) == len(self.parent):
                allowed = f"a list with a {'whole number' if of is Integral else 'text'} for each node"
                raise DataError(what, got=f"{name} = {brief(column)}", allowed=allowed, fix=fix)
        way = [-1]  # from above the root to the node before
        for node, parent in enumerate(self.parent):
            while way and way[-1] != parent:
                way.pop()
            if len(way) < 1 + (node > 0):
                allowed = "-1 for node 0 alone; for another node, the node before it or one above that"
                raise DataError(what, got=f"node {node:,} has the parent {brief(parent)}", allowed=allowed, fix=fix)
            way.append(node)

    def subtree(self, first: int, nodes: int) -> ParsedTree:
        """The subtree at the node `first`, which has so many nodes. They are contiguous in pre-order.

        >>> ParsedTree(parent=[-1, 0, 1, 0], kind=list("abcd"), token=list("abcd")).subtree(1, 2)
        ParsedTree(document=0, parent=[-1, 0], kind=['b', 'c'], token=['b', 'c'])
        """
        end = first + nodes
        parent = [-1, *(above - first for above in self.parent[first + 1 : end])]
        return ParsedTree(self.document, parent, self.kind[first:end], self.token[first:end])

    def ranks(self) -> list[int]:
        """[N] The place of each node among its siblings, from 0; 0 for the root.

        >>> ParsedTree(parent=[-1, 0, 1, 0], kind=list("abcd"), token=list("abcd")).ranks()
        [0, 0, 0, 1]
        """
        children = [0] * len(self.parent)
        ranks = [0]
        for parent in self.parent[1:]:
            ranks.append(children[parent])
            children[parent] += 1
        return ranks

    def levels(self, binarised: bool = False) -> int:
        """The number of steps from the root to the lowest node.

        In a binarised tree, a step to child number c (from 0) is 1 + c steps.

        >>> tree = ParsedTree(parent=[-1, 0, 0, 2], kind=list("abcd"), token=list("abcd"))
        >>> tree.levels(), tree.levels(binarised=True)
        (2, 3)
        """
        levels = [0]
        for parent, rank in zip(self.parent[1:], self.ranks()[1:], strict=True):
            levels.append(levels[parent] + 1 + (rank if binarised else 0))
        return max(levels)


def join_trees(kind: str, trees: Iterable[ParsedTree], document: int = 0) -> ParsedTree:
    """Join trees under a new root. Raises `DataError` if one is no tree, or if they have too many nodes together.

    >>> leaf = ParsedTree(parent=[-1], kind=["a"], token=["a"])
    >>> join_trees("file", [leaf, leaf])
    ParsedTree(document=0, parent=[-1, 0, 0], kind=['file', 'a', 'a'], token=['file', 'a', 'a'])
    """
    whole = ParsedTree(document)
    whole.add(-1, kind)
    for number, tree in enumerate(trees, 1):
        tree.check(number)
        first = len(whole.parent)
        for parent, *labels in zip(tree.parent, tree.kind, tree.token, strict=True):
            whole.add(parent + first if parent >= 0 else 0, *labels)
    return whole


def documents(trees: Iterable[ParsedTree], unit: Unit) -> Iterator[ParsedTree]:
    """The documents of a file, numbered from 0; or one tree with all of them under a root `file` if that is the unit.

    Raises `DataError` if they have too many nodes together.
    """
    if unit == "file":
        yield join_trees("file", trees)
        return
    for number, tree in enumerate(trees):
        tree.document = number
        yield tree


class TreeFormat(ABC):
    """A format of files that have trees. The file's stem in this folder is the name for `--format`.

    `variant` is the rest of a name `NAME-VARIANT`. Only a format with `variants` gets one.
    """

    part_kind: ClassVar[str] = "format"  # for messages
    suffixes: ClassVar[tuple[str, ...]] = ()  # of files that are read in this format if no format is named: `.py`
    units: ClassVar[tuple[Unit, ...]]  # what one tree can be, the default first; `subtree` is possible for all
    needs: ClassVar[str | None] = None  # a package that the format needs and that ape-cli does not install
    most_bytes: ClassVar[int] = 256 * 2**20  # the most that the text of a file may have, for its parser
    declares_encoding: ClassVar[bool] = False  # whether a document may; one that is decoded then begins with a mark
    variants: ClassVar[Mapping[str, tuple[str, ...]]] = {}  # such as languages, with the suffixes of their files

    suffix = ""  # of the file that is read, in lower case, as `.py`

    def __init__(self, variant: str | None = None) -> None:
        """Choose the variant."""
        self.variant = variant

    @abstractmethod
    def trees(self, content: bytes, unit: Unit) -> Iterator[ParsedTree]:
        """The trees of a file, one for each `unit`, in the order of the file. `unit` is one of `units`.

        Raises `DataError` if the content is not of this format. The caller adds the name of the file.
        """

    def reads(self, suffix: str) -> bool:
        """Whether files with this suffix, in lower case, have this format and variant."""
        return suffix in (self.suffixes if self.variant is None else self.variants.get(self.variant, ()))

    @classmethod
    def variant_of(cls, suffix: str) -> str | None:
        """The first variant for files with this suffix; None if there is none."""
        return next((variant for variant, suffixes in cls.variants.items() if suffix in suffixes), None)


def damaged(what: str, line: int | None = None) -> DataError:
    """The error for content that is not of its format. `line` is counted from 1.

    >>> print(damaged("a bracket is not closed", 3))
    line 3: a bracket is not closed
    """
    return DataError(what if line is None else f"line {line:,}: {what}")


def line_at(text: str, index: int) -> int:
    """The number of the line of a character, counted from 1.

    >>> line_at("a\\nb", 2)
    2
    """
    return text.count("\n", 0, index) + 1


def decoded(content: bytes, encoding: str = "utf-8") -> str:
    """Decode text. A byte order mark at its start is left out.

    Raises `DataError` if it is not text in this encoding, if it has a NUL character, or if the encoding is unknown.
    """
    try:
        if codecs.lookup(encoding).name.replace("_", "-") in _REFUSED:
            raise LookupError
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise damaged(f"it is not text in the encoding {encoding} ({error.reason})", line) from error
    except (LookupError, ValueError) as error:
        raise damaged(f"it has the encoding {encoding!r}, which is not supported") from error
    if "\0" in text:
        raise damaged("it has a NUL character, so it is no text", line_at(text, text.index("\0")))
    return text.removeprefix("\ufeff")


def names() -> list[str]:
    """The names of all formats, from the files in this folder and from entry points.

    >>> len(names()), names()[:4]
    (8, ['conllu', 'html', 'json', 'json-lines'])
    """
    return plugins.names(sys.modules[__name__])


def load(name: str) -> TreeFormat:
    """The format that is called `name`. A name such as `tree-sitter-javascript` chooses a variant of a format.

    Raises `UsageError` for an unknown name and for a format whose package is missing, and `ApeError` if the file of the
    format cannot be imported.
    """
    formats = names()
    stem = name if name in formats else max((k for k in formats if name.startswith(f"{k}-")), key=len, default=name)
    cls = plugins.load(sys.modules[__name__], stem, TreeFormat)  # type: ignore[type-abstract]
    if name != stem and (not cls.variants or name == f"{stem}-"):
        raise unknown("format", name, formats)
    extra = None if plugins.is_user_class(cls) else (cls.needs or "").replace("_", "-")
    if how := how_to_get(cls.needs, extra):
        raise UsageError(f"the format {stem} needs {cls.needs}", got="it is not installed", fix=how)
    with user_parts.explained(cls):
        return cls(name.removeprefix(f"{stem}-") if name != stem else None)


def by_suffix(path: PurePath | str) -> str | None:
    """The name of the format that files with this suffix have; None if no format has it.

    >>> by_suffix("a/b.py"), by_suffix("b.PY"), by_suffix("c.txt")
    ('python', 'python', None)

    Raises `UsageError` if several formats have the suffix, and `ApeError` if the file of a format cannot be imported.
    """
    suffix = PurePath(path).suffix.lower()
    matching = []
    for name in names() if suffix else ():
        cls = plugins.load(sys.modules[__name__], name, TreeFormat)  # type: ignore[type-abstract]
        if suffix in cls.suffixes:
            variant = cls.variant_of(suffix)
            matching.append(f"{name}-{variant}" if variant else name)
    if len(matching) > 1:
        what = f"several formats have files {suffix}"
        raise UsageError(what, got=", ".join(matching), fix="name it with `format`")
    return matching[0] if matching else None


def chosen_unit(name: str, tree_format: TreeFormat, unit: str | None) -> Unit:
    """The unit that a file of the format `name` is read in. The default is the format's first.

    `subtree` is read as the default, because the caller cuts the subtrees. Raises `UsageError` for a unit that the
    format does not have.
    """
    if unit is None or unit == "subtree":
        return tree_format.units[0]
    if unit not in tree_format.units:
        raise UsageError(
            f"the format {name} has no such unit", got=unit, allowed=", ".join([*tree_format.units, "subtree"])
        )
    return unit
