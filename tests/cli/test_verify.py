"""`ape verify` names everything that it cannot verify, and does not stop at the first."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from ape_cli.data.loader import Dataset
from tests.conftest import ape


def test_all_datasets_are_checked(words: Dataset, here: Path) -> None:
    for name in ("a", "b", "c"):
        shutil.copytree(str(words.folder), here / name)
    shard = next((here / "a" / "data").iterdir())
    shard.write_bytes(shard.read_bytes()[:-1])
    manifest = here / "c" / "manifest.json"
    manifest.write_text(manifest.read_text().replace("reverse", "revers"))
    long = "n" * 256
    given = [word for name in ("a", "b", "none", "c", long) for word in ("--data", name)]
    lines = ape("verify", *given, code=1)[0].splitlines()
    assert [line.partition(" (")[0] for line in lines if not line.startswith("c: ")] == [
        f"a: a shard was altered or truncated: a/data/{shard.name}",
        "none: no such dataset",
        f"{long}: cannot read {long}/manifest.json",
        "5 datasets, 4 damaged",
    ]
    assert any(line.startswith("c: the manifest of c was altered") for line in lines)
    found = json.loads(ape("verify", *given, "--json", code=1)[0])
    assert [line["rows"] for line in found] == [200, 200, None, 200, None]
    assert [bool(line["problems"]) for line in found] == [True, False, True, True, True]


def test_a_folder_of_results_that_does_not_exist(here: Path) -> None:
    for words in ((), ("--json",)):
        out, err = ape("verify", "--results", "nosuch", *words, code=1)
        assert (out, err.splitlines()[:2]) == ("", ["error: no such results folder", "  got:     nosuch"])
    (here / "empty").mkdir()
    assert ape("verify", "--results", "empty")[0] == "0 runs, 0 damaged\n"
