"""A user's own formats of trees that give malformed trees, something else, or an error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ape_cli import tasks
from ape_cli.core import plugins
from ape_cli.core.errors import ApeError, DataError
from ape_cli.storage import tree_formats
from ape_cli.storage.tree_formats import ParsedTree, TreeFormat, Unit
from ape_cli.storage.tree_sources import read_trees
from tests.storage.test_tree_sources import parquet, put


class Malformed(TreeFormat):
    """Each line of a file is a list of parents."""

    units = ("document",)

    def trees(self, content: bytes, unit: Unit) -> Iterator[ParsedTree]:
        for line in content.decode().splitlines():
            parent = json.loads(line)
            yield ParsedTree(parent=parent, kind=["a"] * len(parent), token=["a"] * len(parent))


def test_a_malformed_tree_of_an_own_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_formats, "load", lambda name: Malformed())
    where = put(tmp_path, a_x="[-1, 0, 1]", b_x="[-1]\n[-1, -1, 0]", c_x="[-1, 5]", d_x="[-1, 0]")
    with pytest.raises(DataError) as caught:
        read_trees(f"{where}/*.x", format="own")
    assert caught.value.got == "tree 2 is malformed (node 1 has the parent -1)"
    source = read_trees(f"{where}/*.x", format="own", skip_bad=True)
    assert list(source.files) == ["a.x", "d.x"]
    assert [path for path, _ in source.skipped] == ["b.x", "c.x"]
    rows = parquet(tmp_path, text=["[-1]", "[-1, 1]"])
    with pytest.raises(DataError, match="row 1: tree 1 is malformed"):
        read_trees(rows, format="own")


@pytest.mark.parametrize("found", [3, ["tree"]])
def test_an_own_format_that_returns_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: object
) -> None:
    """It is not taken for a file that is damaged, and so not skipped."""
    own = type("Own", (Malformed,), {"trees": lambda self, content, unit: found, "__module__": __name__})
    monkeypatch.setattr(tree_formats, "load", lambda name: own())
    with pytest.raises(ApeError, match="`trees` of format 'test-own-formats' returns an unexpected value") as caught:
        read_trees(f"{put(tmp_path, a_x='')}/*.x", format="own", skip_bad=True)
    assert "ParsedTree" in str(caught.value.allowed)


def test_a_changed_own_format_makes_another_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_formats, "load", lambda name: Malformed())
    where = f"{put(tmp_path, a_x='[-1, 0]')}/*.x"
    digests = []
    for code in ("0", "0", "1"):
        monkeypatch.setattr(plugins, "digest", lambda cls, code=code: code)
        digests.append(tasks.make("trees", source=where, format="own").parameters["sha256"])
    assert digests[0] == digests[1] != digests[2]
