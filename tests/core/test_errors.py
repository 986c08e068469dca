"""Fixes in messages: failures of the machine, similar names, whatever their case, and the words of other programs."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import pytest

from ape_cli import position
from ape_cli.cli.console import user_error
from ape_cli.core.errors import ApeError, UsageError, cannot_write, nearest
from ape_cli.storage import files, parquet
from tests.conftest import ape, write


@pytest.mark.parametrize(
    ("name", "near"),
    [("RoPE", "rope"), ("T5", "t5"), ("ORTHOGONAL_SEQ", "orthogonal-seq"), ("TransformerXL", "transformer-xl")],
)
def test_case_and_hyphens_do_not_count(name: str, near: str) -> None:
    assert nearest(name, position.names()) == near


def test_nothing_similar_is_no_suggestion() -> None:
    assert nearest("zzzz", position.names()) is None
    with pytest.raises(UsageError, match="unknown scheme"):
        position.make(position.make("rope"))  # type: ignore[arg-type]
    assert nearest("lr", ["warmup"], {"lr": "lr_peak"}) is None  # a word for another thing


def test_no_word_is_a_name_or_a_word_for_two_schemes() -> None:
    words = [(word, name) for name in position.names() for word in position.load(name).synonyms]
    assert len(dict(words)) == len(words) > 15
    assert not dict(words).keys() & set(position.names())


def test_words_of_other_programs_are_understood(here: Path) -> None:
    err = ape("train", "--scheme", "Rotary", "--task", "copy", code=2)[1]
    assert "did you mean 'rope'? (searched: " in err


def test_an_unknown_dataset_lists_those_that_there_are(here: Path) -> None:
    write(Path("elsewhere/copy-7"), "copy", rows=(4, 2, 2))
    err = ape("show", "Copy7", "--datasets", "elsewhere", code=1)[1]
    assert "no such dataset" in err
    assert "allowed: a folder, or one of those in elsewhere: copy-7\n" in err
    assert "did you mean 'copy-7'?" in err
    assert "one of those in datasets: none\n" in ape("show", "Copy7", code=1)[1]


@pytest.mark.parametrize(
    ("number", "fix"),
    [
        (errno.EMFILE, "(`ulimit -n`)"),
        (errno.EFBIG, "(`ulimit -f`)"),
        (errno.ENOSPC, "free some space"),
        (errno.EDQUOT, "quota"),
    ],
)
def test_failures_of_the_machine_get_their_own_fix(number: int, fix: str) -> None:
    """It is the same for reading, for writing and for what a command itself does not expect."""
    error = OSError(number, os.strerror(number), "file")
    assert fix in files.how_to_read(error, "restore the file")
    assert fix in str(cannot_write("file", error))
    assert fix in str(user_error(error))


def test_a_file_that_cannot_be_opened_is_not_called_damaged(tmp_path: Path) -> None:
    """Libraries report the limit of open files in their own ways."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    (tmp_path / "shard.parquet").touch()
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        with pytest.raises(ApeError) as shard:
            parquet.read_shard(tmp_path / "shard.parquet")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert "(`ulimit -n`)" in str(shard.value)
