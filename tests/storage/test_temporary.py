"""Temporary files: one for each writer, never through a link, and removed after a kill."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ape_cli.core.errors import ApeError
from ape_cli.storage import files
from tests.interpreters import started

WRITER = """
import sys
from pathlib import Path
from ape_cli.storage import files
path, letter = Path(sys.argv[1]), sys.argv[2]
for _ in range(150):
    files.write_text(path, letter * 40_000)
"""


def test_writers_of_one_file_do_not_mix(tmp_path: Path) -> None:
    """Whoever reads meanwhile sees the whole content of one writer."""
    target = tmp_path / "r.md"
    target.write_text("start")
    writers = [started("-c", WRITER, str(target), letter) for letter in "abcd"]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        seen.add(target.read_text())
    for writer in writers:
        writer.communicate()
        assert writer.returncode == 0
    assert seen - {"start"} <= {letter * 40_000 for letter in "abcd"}
    assert len(seen) > 2
    assert [path.name for path in tmp_path.iterdir()] == ["r.md"]


def test_a_planted_link_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    monkeypatch.setattr(files.secrets, "token_hex", lambda size: "0" * 16)
    (tmp_path / f".r.md.{'0' * 16}.tmp").symlink_to(victim)
    with pytest.raises(ApeError, match="cannot write"):
        files.write_text(tmp_path / "r.md", "new")
    assert victim.read_text() == "precious"
    (tmp_path / ".lock").symlink_to(victim)
    with pytest.raises(ApeError, match="cannot write"), files.locked(tmp_path / ".lock", ApeError("busy")):
        pass
    assert victim.read_text() == "precious"


def test_the_permissions_of_a_new_file(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        files.write_text(tmp_path / "x.txt", "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x.txt").stat().st_mode) == 0o640


def test_a_pipe_or_a_device_is_not_replaced(tmp_path: Path) -> None:
    """`--out /dev/stdout` must not put a file there."""
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "stdout").symlink_to("/dev/null")
    for name in ("pipe.csv", "stdout"):
        with pytest.raises(ApeError, match=r"cannot write [\s\S]*it is not a regular file"):
            files.write_text(tmp_path / name, "new")
    assert stat.S_ISFIFO((tmp_path / "pipe.csv").stat().st_mode)
    assert (tmp_path / "stdout").is_symlink()
