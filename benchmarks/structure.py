"""Counts about the package of a checkout: parts, imports, names and docstrings. `--trace` also runs it.

`python -m benchmarks.structure CHECKOUT [--trace] [--list] [--json FILE]` counts in the syntax trees of the files of
`CHECKOUT/ape_cli`. `--trace` adds the files and packages that three commands pass through (`_trace.py`). Without it, no
code of the checkout is run.

- Entries: packages and modules of the top level, without `__init__`, `__main__` and data files.
- Import edges: distinct pairs of two entries, or of two files. Imports inside functions and under TYPE_CHECKING count.
  Imports by a computed name do not. `from ape_cli.a import b` leads to the file of `b` if `b` is a module.
- Cycles: strongly connected components of two or more. Back edges: imports of an entry that comes later in the order,
  which is the first PIPELINE or ORDER of a `test_architecture.py` or `test_layers.py` below `tests`.
- Renamed imports: `import ape_cli.a as b`, and `from ape_cli import a as b` where `a` is a module.
- Definitions: public classes and functions at the top level of any module, and public methods of the classes.
- Functions on arrays: definitions that name Tensor, ndarray or NDArray in an annotation. A second count also includes
  aliases of NDArray (`I64`). A shape is a bracket of sizes such as `[B, N]`, or `shape []`, outside of examples.
- Functions that raise: functions with a `raise` of an ApeError, by its class or by a function that returns one. Nested
  functions do not count. The word `raise` or `raises` has to be in the docstring. Functions without a docstring are
  counted separately.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks import _trace
from benchmarks._measure import Row

SUMMARY = "counts about the package: parts, imports, names and docstrings"

Edges = set[tuple[str, str]]  # importer and imported
Function = ast.FunctionDef | ast.AsyncFunctionDef

_ORDER_FILES = ("test_architecture", "test_layers")
_ARRAY = r"Tensor|ndarray|NDArray"
_SHAPE = re.compile(r"shape \[\]|\[[A-Za-z0-9…(*.][A-Za-z0-9…,+*/ ×.()-]*\]")
_EXAMPLE = re.compile(r"^ *>>>.*?(?=\n *\n|\Z)", re.MULTILINE | re.DOTALL)


class Package:
    """The syntax trees of `CHECKOUT/ape_cli`, by the dotted names of the modules."""

    def __init__(self, checkout: Path) -> None:
        """Parse all files and collect their imports."""
        self.checkout, self.folder = checkout, checkout / "ape_cli"
        self.files = {self._name(path): path for path in sorted(self.folder.rglob("*.py"))}
        self.trees = {name: ast.parse(path.read_text()) for name, path in self.files.items()}
        self.entries = {name.split(".")[1] for name in self.files if "." in name} - {"__main__"}
        self.edges: Edges = set()  # between files
        self.renames: list[str] = []
        for name, tree in self.trees.items():
            for node in ast.walk(tree):
                for target, bound in self._imported(name, node):
                    self.edges |= {(name, target)} if target != name else set()
                    if bound not in (None, target.rpartition(".")[2]):
                        self.renames.append(f"{self._at(name, node)} {target} as {bound}")

    def _name(self, path: Path) -> str:
        """The dotted name of a file's module."""
        parts = path.relative_to(self.checkout).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def _imported(self, name: str, node: ast.AST) -> Iterator[tuple[str, str | None]]:
        """The modules of the package that a statement imports, each with the name that it is bound to, or None."""
        if isinstance(node, ast.Import):
            yield from ((alias.name, alias.asname) for alias in node.names if alias.name in self.files)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                up = name.split(".") if self.files[name].name == "__init__.py" else name.split(".")[:-1]
                base = ".".join([*up[: len(up) - node.level + 1], *filter(None, [node.module])])
            for alias in node.names:
                if f"{base}.{alias.name}" in self.files:
                    yield f"{base}.{alias.name}", alias.asname
                elif base in self.files:
                    yield base, None

    def _at(self, name: str, node: ast.AST) -> str:
        """The place of a part of a module, FILE:LINE."""
        return f"{self.files[name].relative_to(self.checkout)}:{getattr(node, 'lineno', 1)}"

    def top_edges(self) -> Edges:
        """The import edges between entries of the top level."""
        tops = {(a.split(".")[1], b.split(".")[1]) for a, b in self.edges if "." in a and "." in b}
        return {(a, b) for a, b in tops if a != b and {a, b} <= self.entries}

    def order(self) -> list[str]:
        """The entries in the order that a test of the checkout prescribes. Empty if there is none."""
        for path in sorted(p for p in (self.checkout / "tests").rglob("test_*.py") if p.stem in _ORDER_FILES):
            for node in ast.parse(path.read_text()).body:
                named = re.match(r"(PIPELINE|ORDER)\b", ast.unparse(node))
                if named and isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
                    keys = [key for key in node.value.keys if key] if isinstance(node.value, ast.Dict) else []
                    return self._entries(keys) or self._entries([node.value])
        return []

    def _entries(self, nodes: Iterable[ast.AST]) -> list[str]:
        """The entries of the top level that are named in some expressions, in the order of the file."""
        texts = [part for node in nodes for part in ast.walk(node) if isinstance(part, ast.Constant)]
        texts.sort(key=lambda part: (part.lineno, part.col_offset))
        return list(dict.fromkeys(str(part.value) for part in texts if part.value in self.entries))

    def definitions(self) -> list[tuple[str, ast.ClassDef | Function]]:
        """The public classes, functions and methods, each with its place and name, FILE:LINE NAME."""
        definitions: list[tuple[str, ast.ClassDef | Function]] = []
        for name, tree in self.trees.items():
            for node in _public(tree):
                definitions.append((f"{self._at(name, node)} {node.name}", node))
                inner = _public(node) if isinstance(node, ast.ClassDef) else []
                definitions += [
                    (f"{self._at(name, n)} {node.name}.{n.name}", n) for n in inner if isinstance(n, Function)
                ]
        return definitions

    def aliases(self) -> set[str]:
        """The names of type aliases of NDArray."""
        text = "\n".join(path.read_text() for path in self.files.values())
        return set(re.findall(r"^(?:type )?(\w+)(?:: TypeAlias)? = (?:[\w.]+\.)?NDArray\[", text, re.MULTILINE))

    def errors(self) -> set[str]:
        """The names of ApeError, of its subclasses, and of the functions that return one of these."""
        every = [node for tree in self.trees.values() for node in ast.walk(tree)]
        names, before = {"ApeError"}, set[str]()
        while names != before:
            before = set(names)
            names |= {n.name for n in every if isinstance(n, ast.ClassDef) and before & set(map(_last, n.bases))}
        return names | {n.name for n in every if isinstance(n, Function) and _last(n.returns) in names}


def _public(node: ast.Module | ast.ClassDef) -> list[ast.ClassDef | Function]:
    """The classes and functions directly in a module or a class, without those whose names begin with an underscore."""
    return [n for n in node.body if isinstance(n, ast.ClassDef | Function) and not n.name.startswith("_")]


def _last(node: ast.AST | None) -> str:
    """The last part of a dotted or quoted name, or of the name that a call calls. Empty for other expressions."""
    if isinstance(node, ast.Call):
        return _last(node.func)
    name = ast.unparse(node).strip("'\"") if node is not None else ""
    return name.rpartition(".")[2] if re.fullmatch(r"[\w.]+", name) else ""


def _annotated(node: Function, words: str) -> bool:
    """Whether an annotation of a function contains one of the words (a regular expression)."""
    notes = [node.returns, *(part.annotation for part in ast.walk(node.args) if isinstance(part, ast.arg))]
    return any(re.search(rf"\b({words})\b", ast.unparse(note)) for note in notes if note is not None)


def _raises(node: ast.AST, errors: set[str]) -> bool:
    """Whether a node contains a `raise` of one of the errors. Functions and classes inside it do not count."""
    inner = [n for n in ast.iter_child_nodes(node) if not isinstance(n, Function | ast.ClassDef)]
    return any((isinstance(n, ast.Raise) and _last(n.exc) in errors) or _raises(n, errors) for n in inner)


def cycles(edges: Edges) -> list[list[str]]:
    """The strongly connected components of two or more, each sorted."""
    far: dict[str, set[str]] = {name: {b for a, b in edges if a == name} for edge in edges for name in edge}
    for middle, beyond in far.items():  # Warshall's algorithm
        for reached in far.values():
            reached.update(beyond if middle in reached else ())
    parts = {tuple(sorted(other for other in reached if name in far[other])) for name, reached in far.items()}
    return sorted(list(part) for part in parts if len(part) > 1)


def figures(package: Package) -> dict[str, Any]:
    """All figures of a package: numbers, and lists of the items that are counted."""
    edges, order, definitions = package.top_edges(), package.order(), package.definitions()
    packages = {name for name in package.entries if (package.folder / name).is_dir()}
    back = sorted(f"{a} -> {b}" for a, b in edges if {a, b} <= set(order) and order.index(a) < order.index(b))
    homes = defaultdict[str, list[str]](list)  # of public classes
    for where, node in definitions:
        homes[node.name] += [where.split(":")[0]] * isinstance(node, ast.ClassDef)
    lines = {str(p.relative_to(package.checkout)): len(p.read_text().splitlines()) for p in package.files.values()}
    said = {where: ast.get_docstring(node) or "" for where, node in definitions}
    functions = [(where, node) for where, node in definitions if isinstance(node, Function)]
    errors, names = package.errors(), "|".join([_ARRAY, *sorted(package.aliases())])
    arrays, wider = ([where for where, node in functions if _annotated(node, words)] for words in (_ARRAY, names))
    shapeless = [where for where in wider if not _SHAPE.search(_EXAMPLE.sub("", said[where]))]
    raising = [where for where, node in functions if _raises(node, errors)]
    silent = [where for where in raising if not re.search(r"\braises?\b", said[where], re.IGNORECASE)]
    return {
        "entries": len(package.entries),
        "packages": len(packages),
        "modules": len(package.entries - packages),
        "files": len(lines),
        "lines": sum(lines.values()),
        "files over 250 lines": [f"{name} {count}" for name, count in lines.items() if count > 250],
        "edges between entries": len(edges),
        "edges between files": len(package.edges),
        "cycles of entries": cycles(edges),
        "cycles of files": cycles(package.edges),
        "order": order,
        "back edges": back if order else None,
        "entries without a place": sorted(package.entries - set(order)) if order else None,
        "renamed imports": package.renames,
        "same-name classes": [f"{name}: {', '.join(files)}" for name, files in sorted(homes.items()) if len(files) > 1],
        "definitions": len(definitions),
        "definitions without docstring": [where for where in said if not said[where]],
        "modules without docstring": [name for name, tree in package.trees.items() if not ast.get_docstring(tree)],
        "functions on arrays": len(arrays),
        "functions on arrays without shape": [where for where in shapeless if where in set(arrays)],
        "functions on arrays and aliases": len(wider),
        "functions on arrays and aliases without shape": shapeless,
        "functions that raise": len(raising),
        "functions that raise without saying so": [where for where in silent if said[where]],
        "functions that raise, without docstring": [where for where in silent if not said[where]],
    }


def text(counted: dict[str, Any], *, listed: bool) -> str:
    """The figures as lines. A list is printed as its length, and with its items if `listed` or if there are few."""
    lines = []
    for name, value in counted.items():
        parts = value if isinstance(value, list) else []
        lines.append(f"{name}: {'not known' if value is None else len(parts) if value == parts else value}")
        if listed or name in ("cycles of entries", "back edges", "same-name classes"):
            lines += [f"    {', '.join(part) if isinstance(part, list) else part}" for part in parts]
    return "\n".join(lines)


def measure() -> Iterator[Row]:
    """The figures of this checkout that are ratios."""
    counted = figures(Package(Path(__file__).parents[1]))
    for whole, lack in (("definitions", "docstring"), ("functions on arrays", "shape")):
        count, of = len(counted[f"{whole} without {lack}"]), counted[whole]
        yield Row(f"{whole} without {lack} / all", count / max(1, of), absolute={f"without {lack}": count, "all": of})


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.structure", description=SUMMARY)
    parser.add_argument("checkout", type=Path, help="folder that contains ape_cli")
    parser.add_argument(
        "--trace", action="store_true", help="also run it, and count the files and packages that commands pass through"
    )
    parser.add_argument("--list", action="store_true", help="print the counted items too, not only their numbers")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures and items to a file")
    given = parser.parse_args()
    checkout = given.checkout.resolve()
    if not (checkout / "ape_cli").is_dir():
        parser.error(f"no package ape_cli in {checkout}")
    counted = figures(Package(checkout))
    print(text(counted, listed=given.list), flush=True)
    if given.trace:
        counted |= (traces := _trace.traces(checkout))
        print(text(traces, listed=given.list))
    if given.json:
        given.json.write_text(json.dumps(counted, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
