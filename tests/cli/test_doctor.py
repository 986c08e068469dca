"""`ape doctor` and `ape verify`: versions, machine, folders and damaged files."""

from __future__ import annotations

import json
import platform
import shutil
import tomllib
from pathlib import Path

import pytest
import torch

import ape_cli
from ape_cli.core import extras
from ape_cli.data.loader import Dataset
from ape_cli.models import speed
from tests.conftest import ROOT, ape
from tests.reports.test_aggregation import add


def test_it_shows_versions_machine_and_folders(here: Path) -> None:
    add(here / "results", "rope", 0.5)
    found = json.loads(ape("doctor", "--json")[0])
    versions = found["versions"]
    assert versions["ape"] == ape_cli.__version__
    assert versions["Python"] == platform.python_version()
    assert versions["torch"] == torch.__version__
    assert found["machine"]["threads"] == torch.get_num_threads()
    assert found["folders"]["results"]["at"] == str(here / "results")
    assert found["folders"]["results"]["runs finished"] == 1
    assert found["folders"]["datasets"]["exists"] == "no"
    shown = ape("doctor")[0]
    assert "runs finished 1" in shown


def test_one_line_names_what_is_optional_and_absent(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uses = {"plots": (("json",), "plots"), "ray": (("no_such_package",), "--engine ray"), "hub": (("none_",), "push")}
    monkeypatch.setattr(extras, "EXTRAS", uses)
    assert json.loads(ape("doctor", "--json")[0])["absent"] == ["ray", "hub"]
    line = f"optional, not installed: ray (--engine ray), hub (push); to install: {extras.how_to_install('ray,hub')}"
    assert line in ape("doctor")[0].splitlines()


def test_every_extra_for_users_is_known() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {*extras.EXTRAS, "trees", "test", "docs", "dev"} == set(project["optional-dependencies"])


def test_it_measures_products_on_request(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "_SECONDS", 1e-3)
    found = json.loads(ape("doctor", "--speed", "--json")[0])["speed"]
    assert [one["precision"] for one in found] == ["fp32", "bf16"] * 3
    assert all(one["gflops"] > 0 and one["library"] for one in found)
    shown = ape("doctor", "--speed")[0]
    assert "linear layer (6400 x 128)(128 x 512), fp32: " in shown
    assert "GFLOP/s" in shown


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
    assert "no such results folder" in ape("verify", "--results", "nosuch", code=1)[1]
    (here / "empty").mkdir()
    assert ape("verify", "--results", "empty")[0] == "0 runs, 0 damaged\n"
