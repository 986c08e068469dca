"""Changed files and odd folders of a dataset."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ape_cli.core.errors import DataError
from ape_cli.data import manifest
from ape_cli.data.loader import Dataset
from tests.conftest import ape
from tests.registered import edit


@pytest.mark.parametrize("name", ["../../x", "copy\x1b[2J"])
def test_the_name_of_a_task_cannot_leave_its_folder(words: Dataset, tmp_path: Path, name: str) -> None:
    """The task is outside the fingerprint, and becomes a part of the name of a run."""
    folder = shutil.copytree(str(words.folder), tmp_path / "d")
    edit(folder / "manifest.json", lambda fields: fields["plan"].update(task=name))
    with pytest.raises(DataError, match=r"plan.task: the task cannot be a part of a path"):
        manifest.read_manifest(folder)


def test_a_linked_folder_of_shards_is_not_written_into(tmp_path: Path) -> None:
    """It may be that of another dataset, whose shards would be replaced."""
    words = ("gen", "copy", "--n", "6", "--n-validation", "2", "--n-test", "2", "--length-mean", "5", "--out")
    (tmp_path / "other").mkdir()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "data").symlink_to("../other")
    assert "data is a symbolic link" in ape(*words, str(tmp_path / "mine"), "--overwrite", code=1)[1]
    assert list((tmp_path / "other").iterdir()) == []
