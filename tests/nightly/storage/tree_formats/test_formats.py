"""Errors of syntax that a grammar of tree-sitter hides."""

from __future__ import annotations

from pathlib import Path

import pytest

from ape_cli.core.errors import DataError
from ape_cli.storage.tree_sources import read_trees


def test_a_missing_token_that_the_grammar_hides(tmp_path: Path) -> None:
    """In C, a directive ends with its line. The last line of a file may have no end."""
    pytest.importorskip("tree_sitter_c")
    (tmp_path / "a.c").write_text("int a;\n#define A 1")
    (tmp_path / "b.c").write_text("int b;\n")
    with pytest.raises(DataError, match=r"cannot read .*a\.c\n  got:     line 2: no valid c"):
        read_trees(str(tmp_path))
    source = read_trees(str(tmp_path), skip_bad=True)
    assert (source.skipped, list(source.files)) == ([("a.c", "line 2: no valid c")], ["b.c"])
