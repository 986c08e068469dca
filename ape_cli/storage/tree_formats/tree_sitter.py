"""Programs in many languages: the syntax trees of tree-sitter. No program is executed.

It needs the extra `tree-sitter` and the package of the language, such as `tree-sitter-javascript`. This
name chooses the language; `tree-sitter` chooses it by the suffix of each file.

The nodes are those that have a name in the grammar, without comments. The kind is the type of the node, for example
`call_expression`. The token of a leaf is its text, and that of a node with a field `operator` is the operator. A file
with errors of syntax is refused.

Source: https://tree-sitter.github.io
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import warnings
from collections.abc import Iterator
from typing import Any

from ape_cli.core.errors import UsageError
from ape_cli.core.extras import how_to_install
from ape_cli.storage.tree_formats import ParsedTree, TreeFormat, Unit, damaged, decoded

_LANGUAGES = {  # language -> suffixes; the first of two languages with one suffix has it if none is named
    "javascript": (".js", ".mjs", ".cjs", ".jsx"),
    "typescript": (".ts", ".mts", ".cts"),
    "tsx": (".tsx",),
    "java": (".java",),
    "c": (".c", ".h"),
    "cpp": (".cpp", ".cc", ".cxx", ".hpp", ".hh", ".h"),
    "c-sharp": (".cs",),
    "go": (".go",),
    "rust": (".rs",),
    "ruby": (".rb",),
    "php": (".php",),
    "bash": (".sh", ".bash"),
    "haskell": (".hs",),
    "ocaml": (".ml",),
    "scala": (".scala",),
    "julia": (".jl",),
    "css": (".css",),
    "python": (".py", ".pyi"),
    "json": (".json",),
    "html": (".html", ".htm"),
}
_OTHERS = frozenset({"python", "json", "html"})  # languages whose files have a format of their own
_MODULES = {"tsx": "typescript"}  # the package of a language that is in another one's
_LANGUAGE = re.compile(r"[a-z][a-z0-9-]*")


class TreeSitterFormat(TreeFormat):
    """A file in the language `variant`."""

    suffixes = tuple(
        suffix for language, suffixes in _LANGUAGES.items() if language not in _OTHERS for suffix in suffixes
    )
    units = ("file",)
    needs = "tree_sitter"
    most_bytes = 4 * 2**20  # the parser needs hundreds of bytes for each token
    variants = _LANGUAGES

    def __init__(self, variant: str | None = None) -> None:
        """Load the language. Raises `UsageError` if its package is missing or does not fit."""
        super().__init__(variant)
        self._language = _language(variant) if variant else None

    def trees(self, content: bytes, unit: Unit) -> Iterator[ParsedTree]:
        """The tree of a file."""
        del unit  # there is only one
        from tree_sitter import Parser

        if self._language is None:
            names = ", ".join(f"tree-sitter-{language}" for language in _LANGUAGES)
            raise UsageError("the format tree-sitter needs a language", allowed=names, fix="name it with `format`")
        source = decoded(content).encode()
        parsed = Parser(self._language).parse(source)
        if parsed.root_node.has_error:
            raise damaged(f"no valid {self.variant}")
        tree = ParsedTree()
        _add(tree, -1, parsed.root_node, source)
        yield tree


def _language(name: str) -> Any:
    """The grammar of a language. Raises `UsageError` if its package is missing or does not fit."""
    package = f"tree-sitter-{_MODULES.get(name, name)}"
    module = package.replace("-", "_")
    if not _LANGUAGE.fullmatch(name) or importlib.util.find_spec(module) is None:
        how = how_to_install("tree-sitter", package)
        raise UsageError(f"the format tree-sitter-{name} needs {package}, which is not installed", fix=how)
    from tree_sitter import Language

    grammar = importlib.import_module(module)
    make = getattr(grammar, f"language_{name.replace('-', '_')}", None) or getattr(grammar, "language", None)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # grammars of another version give a plain number, which still works
            return Language(make())  # type: ignore[misc]
    except (TypeError, ValueError) as error:
        fix = f"pip install -U tree-sitter {package}"
        raise UsageError(f"{package} does not fit the installed tree-sitter", got=error, fix=fix) from error


def _add(tree: ParsedTree, parent: int, node: Any, source: bytes) -> None:
    """Add a node with the nodes below it that have a name. Its token is the text of a leaf, or the operator."""
    named = node.child_by_field_name("operator") if node.child_count else node
    token = source[named.start_byte : named.end_byte].decode() if named is not None else None
    number = tree.add(parent, node.type, token)
    for child in node.named_children:
        if not (child.is_extra and "comment" in child.type):
            _add(tree, number, child, source)
