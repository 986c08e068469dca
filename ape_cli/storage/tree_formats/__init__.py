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
"""

from __future__ import annotations

import pkgutil
import sys
from pathlib import PurePath

from ape_cli.core import plugins, user_parts
from ape_cli.core.errors import UsageError, unknown
from ape_cli.core.extras import how_to_get
from ape_cli.storage.tree_formats._format import ParsedTree, TreeFormat, Unit, joined

__all__ = ["ParsedTree", "TreeFormat", "Unit", "by_suffix", "chosen_unit", "joined", "load", "names"]

__path__ = pkgutil.extend_path(__path__, __name__)  # so that formats in another ape_cli/storage/tree_formats are kind


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
    known = names()
    stem = name if name in known else max((k for k in known if name.startswith(f"{k}-")), key=len, default=name)
    kind = plugins.load(sys.modules[__name__], stem, TreeFormat)  # type: ignore[type-abstract]
    if name != stem and (not kind.variants or name == f"{stem}-"):
        raise unknown("format", name, known)
    extra = None if plugins.is_user_class(kind) else (kind.needs or "").replace("_", "-")
    if how := how_to_get(kind.needs, extra):
        raise UsageError(f"the format {stem} needs {kind.needs}", got="it is not installed", fix=how)
    with user_parts.explained(kind):
        return kind(name.removeprefix(f"{stem}-") if name != stem else None)


def by_suffix(path: PurePath | str) -> str | None:
    """The name of the format that files with this suffix have; None if no format has it.

    >>> by_suffix("a/b.py"), by_suffix("b.PY"), by_suffix("c.txt")
    ('python', 'python', None)

    Raises `UsageError` if several formats have the suffix, and `ApeError` if the file of a format cannot be imported.
    """
    suffix = PurePath(path).suffix.lower()
    matching = []
    for name in names() if suffix else ():
        kind = plugins.load(sys.modules[__name__], name, TreeFormat)  # type: ignore[type-abstract]
        if suffix in kind.suffixes:
            variant = kind.variant_of(suffix)
            matching.append(f"{name}-{variant}" if variant else name)
    if len(matching) > 1:
        what = f"several formats have files {suffix}"
        raise UsageError(what, got=", ".join(matching), fix="name it with `format`")
    return matching[0] if matching else None


def chosen_unit(name: str, kind: TreeFormat, unit: str | None) -> Unit:
    """The unit that a file of the format `name` is read in. The default is the format's first.

    `subtree` is read as the default, because the caller cuts the subtrees. Raises `UsageError` for a unit that the
    format does not have.
    """
    if unit is None or unit == "subtree":
        return kind.units[0]
    if unit not in kind.units:
        raise UsageError(f"the format {name} has no such unit", got=unit, allowed=", ".join([*kind.units, "subtree"]))
    return unit
