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
    out, err = ape("verify", *given, code=1)
    assert out.splitlines() == ["a: failed", "b: 200 rows, verified", "none: failed", "c: failed", f"{long}: failed"]
    assert [line for line in err.splitlines() if line.startswith("error: ")] == [
        f"error: a shard was altered or truncated: a/data/{shard.name}",
        "error: no such dataset",
        "error: c/manifest.json was altered",
        f"error: cannot read {long}/manifest.json",
    ]
    found = json.loads(ape("verify", *given, "--json", code=1)[0])
    assert [line["state"] for line in found] == ["failed", "verified", "failed", "failed", "failed"]
    assert [line["rows"] for line in found] == [None, 200, None, None, None]
    assert found[1]["problems"] == []
    assert found[2]["problems"] == ["no such dataset (none)"]
    assert found[3]["problems"][0].startswith("c/manifest.json was altered (sha256 ")


def test_a_folder_of_results_that_does_not_exist(here: Path) -> None:
    for words in ((), ("--add",), ("--json",)):
        out, err = ape("verify", "--results", "nosuch", *words, code=1)
        assert (out, err.splitlines()[:2]) == ("", ["error: there is no such folder of results", "  got:     nosuch"])
    (here / "empty").mkdir()
    assert ape("verify", "--results", "empty")[0] == "0 runs: 0 verified, 0 unverified, 0 damaged\n"
