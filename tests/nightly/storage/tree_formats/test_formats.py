"""Large files of lines, within limits of memory, and a format that a plug-in adds."""

from __future__ import annotations

from pathlib import Path

import pytest

from ape_cli.core.errors import DataError
from ape_cli.storage.tree_sources import read_trees
from tests.interpreters import python
from tests.nightly.core.test_plugins import distribution, put

FORMAT = """
from ape_cli.storage.tree_formats import ParsedTree, TreeFormat


class Lines(TreeFormat):
    suffixes = (".words",)
    units = ("file",)

    def trees(self, content, unit):
        tree = ParsedTree()
        tree.add(-1, "words")
        for word in content.decode().split():
            tree.add(0, "word", word)
        yield tree
"""


USE = "from ape_cli.storage.tree_sources import read_trees; s = read_trees('.'); print(s.formats, s.trees[0][2].token)"


@pytest.mark.parametrize("how", ["folder", "entry point"])
def test_a_plug_in(tmp_path: Path, how: str) -> None:
    if how == "folder":
        put(tmp_path / "mine", "words", FORMAT, "storage/tree_formats")
    else:
        distribution(tmp_path / "mine", "ape_cli.tree_formats", "words", "their_words:Lines", FORMAT)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.words").write_text("x y")
    done = python("-c", USE, where=tmp_path / "data", path=[tmp_path / "mine"])
    assert done.stdout == "['words'] ['words', 'x', 'y']\n"


def test_a_missing_token_that_the_grammar_hides(tmp_path: Path) -> None:
    """In C, a directive ends with its line. The last line of a file may have no end."""
    pytest.importorskip("tree_sitter_c")
    (tmp_path / "a.c").write_text("int a;\n#define A 1")
    (tmp_path / "b.c").write_text("int b;\n")
    with pytest.raises(DataError, match=r"cannot read .*a\.c\n  got:     line 2: no valid c"):
        read_trees(str(tmp_path))
    source = read_trees(str(tmp_path), skip_bad=True)
    assert (source.skipped, list(source.files)) == ([("a.c", "line 2: no valid c")], ["b.c"])
