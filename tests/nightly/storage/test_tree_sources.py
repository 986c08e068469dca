"""Deep nesting and damaged footers of Parquet files: each is read by another process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interpreters import python
from tests.storage.tree_formats.reading import NEEDS

DEEP = {
    "json": "[" * 10**6 + "]" * 10**6,
    "json-lines": "[" * 10**6,
    "python": "(" * 10**6,
    "s-expr": "(" * 10**6 + ")" * 10**6,
    "conllu": "".join(f"{n + 1}\tw\t_\t_\t_\t_\t{n}\tr\t_\t_\n" for n in range(10**4)),
    "xml": "<a>" * 10**6 + "</a>" * 10**6,
    "html": "<b>" * 10**6,
    "tree-sitter-javascript": "1" + "+1" * 400_000,
}


@pytest.mark.parametrize("name", DEEP)
def test_deep_nesting_is_one_message(tmp_path: Path, name: str) -> None:
    """In a process of its own, because an overflow of the stack would end the interpreter."""
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    (tmp_path / "deep.x").write_text(DEEP[name])
    code = (
        "from ape_cli.core.errors import DataError\n"
        "from ape_cli.storage.tree_sources import read_trees\n"
        f"try: read_trees('deep.x', format={name!r})\n"
        "except DataError as error: print(error)\n"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    *lines, memory = python("-c", code, where=tmp_path).stdout.splitlines()
    assert lines[0] == "cannot read deep.x"
    assert "deep" in lines[1] or "nest" in lines[1] or "in each other" in lines[1] or "Excessive depth" in lines[1]
    assert int(memory) < 2**20  # KiB
