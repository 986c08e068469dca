"""What all formats have in common: names, units, missing packages, and trees that are built node by node."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from ape_cli.core.errors import DataError, UsageError
from ape_cli.storage import tree_formats
from ape_cli.storage.tree_formats import ParsedTree, join_trees
from tests.interpreters import python
from tests.storage.tree_formats.reading import NEEDS, check_laws, nested

NAMES = tree_formats.names()


def leaf(kind: str) -> ParsedTree:
    tree = ParsedTree()
    tree.add(-1, kind)
    return tree


def test_nodes_are_numbered_and_ranked_as_they_are_added() -> None:
    tree = ParsedTree(3)
    root = tree.add(-1, "a")
    first = tree.add(root, "b", "x")
    tree.add(first, "c")
    tree.add(root, "d")
    tree.add(root, "e", "")
    assert tree.parent == [-1, 0, 1, 0, 0]
    assert tree.ranks() == [0, 0, 0, 1, 2]
    assert tree.token == ["a", "x", "c", "d", "e"]
    assert (tree.levels(), tree.levels(binarised=True)) == (2, 3)
    check_laws(tree)
    assert tree.subtree(1, 2) == ParsedTree(3, [-1, 0], ["b", "c"], ["x", "c"])


def tree_of_two() -> ParsedTree:
    tree = leaf("d")
    tree.add(0, "d2")
    return tree


def test_joined_trees() -> None:
    whole = join_trees("file", [tree_of_two(), leaf("e"), tree_of_two()], 4)
    assert nested(whole) == (
        "file",
        "file",
        (("d", "d", (("d2", "d2", ()),)), ("e", "e", ()), ("d", "d", (("d2", "d2", ()),))),
    )
    assert whole.document == 4
    check_laws(whole)


@pytest.mark.parametrize(
    ("parent", "fault"),
    [
        ([], r"parent = \[\]"),
        ([0], "node 0 has the parent 0"),
        ([-1, -1], "node 1 has the parent -1"),  # two roots
        ([1, 0], "node 0 has the parent 1"),  # a cycle
        ([-1, 0, 0, 1], "node 3 has the parent 1"),  # no pre-order
        ([-1, 0.0], r"parent = \[-1, 0.0\]"),
    ],
)
def test_lists_of_parents_that_are_no_tree(parent: Any, fault: str) -> None:
    labels = ["a"] * len(parent)
    tree = ParsedTree(parent=parent, kind=labels, token=labels)
    with pytest.raises(DataError, match=rf"tree 3 is malformed\n  got: .*{fault}.*\n  allowed: .*\n  fix: "):
        tree.check(3)
    with pytest.raises(DataError, match="tree 1 is malformed"):
        join_trees("file", [tree])


@pytest.mark.parametrize("labels", [["a"], ["a", None], "ab"], ids=str)
def test_labels_that_are_no_texts_of_all_nodes(labels: Any) -> None:
    with pytest.raises(DataError, match=r"tree 1 is malformed\n.*token"):
        ParsedTree(parent=[-1, 0], kind=["a", "b"], token=labels).check()


@pytest.mark.parametrize("name", NAMES)
def test_every_format_has_a_test_units_and_suffixes(name: str) -> None:
    assert (Path(__file__).parent / f"test_{name.replace('-', '_')}.py").exists()
    pytest.importorskip(NEEDS.get(name, "json"))
    kind = type(tree_formats.load(name))
    assert "file" in kind.units
    assert all(suffix.startswith(".") and suffix == suffix.lower() for suffix in kind.suffixes)


def test_names() -> None:
    with pytest.raises(UsageError, match="did you mean 'python'"):
        tree_formats.load("pyhton")
    with pytest.raises(UsageError, match="unknown format"):
        tree_formats.load("python-3")
    assert type(tree_formats.load("json-lines")).__name__ == "JsonLinesFormat"


@pytest.mark.parametrize("name", ["conllu", "tree-sitter-javascript"])
def test_a_missing_package_is_one_error(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda *_: None)
    with pytest.raises(UsageError, match=r"needs .*\n.*not installed\n.*pip install"):
        tree_formats.load(name)


def test_no_package_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys; from ape_cli.storage import tree_formats as t; [t.load(n) for n in ('json', 'python', 's-expr')]; "
        "t.by_suffix('a.xml'); print(*sorted({'lxml', 'conllu', 'tree_sitter', 'torch'} & set(sys.modules)))"
    )
    assert python("-c", code).stdout == "\n"
