"""Commands that are stopped and repeated, and commands on several datasets: each starts processes or trains runs."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.cli.test_cli import TINY, imported
from tests.cli.test_stopped import check_resumed
from tests.conftest import ROOT, ape
from tests.interpreters import STORING, started, until


def test_help_and_gen_never_import_torch(here: Path) -> None:
    for words in (["--help"], ["gen", "copy", "--n", "50", *TINY], ["tasks"], ["runs"], ["show", "datasets/copy"]):
        assert "torch" not in imported(*words), words
    assert "import click" not in "".join(p.read_text() for p in (ROOT / "ape_cli").rglob("*.py"))


def test_sizes_that_training_did_not_see(here: Path) -> None:
    """Data generated with --sizes evaluates a run that was trained on other sizes, and a run can train on it."""
    ape("train", "--scheme", "rope", "--task", "reverse", "--preset", "tiny")
    sizes = ("gen", "reverse", "--sizes", "15,12", "--n", "40", "--n-validation", "10", "--n-test", "20")
    assert "datasets/reverse-sizes-12_15: 140 rows written" in ape(*sizes)[0]
    assert "train row 2, length 12" in ape("show", "reverse-sizes-12_15", "--row", "2")[0]
    ape("eval", "--data", "reverse-sizes-12_15")
    asked = ("report", "--by", "size", "--metric", "exact_match", "--format", "json")
    rows = {line["size"]: (line["weight"], line["seen"]) for line in json.loads(ape(*asked)[0])}
    assert (rows[12], rows[15]) == ((20, False), (20, False))
    ape("train", "--scheme", "rope", "--data", "reverse-sizes-12_15", "--preset", "tiny")
    by_size = json.loads(ape(*asked)[0])
    assert {line["size"] for line in by_size if line["trained_on"] == "reverse-sizes-12_15"} == {12, 15}


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_process_is_resumed_to_the_same_weights(
    here: Path, straight: tuple[str, bytes], sign: signal.Signals
) -> None:
    err = check_resumed(here, straight, sign, 130)
    assert "--resume to continue" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_interrupted_generation_is_gone_on_from(here: Path, workers: str) -> None:
    words = ["gen", "copy", "--n", "60000", *TINY, "--shard-rows", "2000", "--workers", workers]
    process = started("-c", STORING, *words, "--out", "broken", where=here)
    until(lambda: len(list(here.glob("broken/data/train-*.parquet"))) >= 2, process)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "run the same command again to continue" in err
    assert "Traceback" not in err
    assert not (here / "broken" / "manifest.json").exists()
    assert not list(here.glob("broken/data/.*.tmp"))
    finished = json.loads(ape(*words, "--out", "broken", "--json")[0])
    assert 0 < finished["written"] < 60_060
    assert json.loads(ape(*words, "--out", "whole", "--json")[0])["fingerprint"] == finished["fingerprint"]


def test_several_datasets_at_once(here: Path) -> None:
    """The result is that of one dataset after another. A run that fits none is skipped, or an error if it was named."""
    few = ["--n", "60", "--n-validation", "5", "--n-test", "20", "--length-std", "1"]
    for name, mean in (("short", "4"), ("long", "12")):
        ape("gen", "reverse", *few, "--length-mean", mean, "--out", f"datasets/{name}")
    for scheme in ("rope", "none"):
        ape("train", "--scheme", scheme, "--data", "datasets/short", "--preset", "tiny", "--set", "steps=2")
    ape("train", "--scheme", "rope", "--task", "copy", "--preset", "tiny", "--set", "steps=2")
    both = json.loads(ape("eval", "--data", "short", "--data", "long", "--decode", "greedy", "--json")[0])
    assert len(both) == 4
    by_size = json.loads(ape("report", "--by", "size", "--decode", "greedy", "--format", "json")[0])
    assert {line["decode"] for line in by_size} == {"greedy"}
    assert sum(line["weight"] for line in by_size) == sum(e["overall"]["tokens"] for e in both)
    kept = {path: path.read_text() for path in here.glob("results/runs/*/eval/*greedy.json")}
    assert len(kept) == 4
    for path in kept:
        path.unlink()
    for name in ("long", "short"):
        err = ape("eval", "--data", name, "--decode", "greedy")[1]
        assert "left out: finished runs of another task, structure or vocabulary: 1" in err
    assert {path: path.read_text() for path in here.glob("results/runs/*/eval/*greedy.json")} == kept
    named = json.loads(ape("eval", "reverse-none", "--data", "short", "--data", "short", "--json")[0])
    assert len(named) == 1
    message = ape("eval", "copy-rope", "--data", "short", "--data", "long", code=1)[1]
    assert message.count("the task or order of the dataset differs") == 2


def test_images_are_told_as_images(here: Path) -> None:
    """A run on images is trained, evaluated by class, and reported."""
    words = ["--task", "images", "--preset", "tiny", "--set", "steps=4", "--set", "validate_every_steps=1"]
    out, err = ape("train", "--scheme", "sinusoidal", *words)
    assert "images/s" in err
    assert "test accuracy" in out
    table = ape("eval", "images-sinusoidal")[0]
    (found,) = json.loads(ape("eval", "images-sinusoidal", "--json")[0])
    assert [line["class"] for line in found["by_class"]] == list("0123456789")
    (seven,) = (line for line in table.splitlines() if "│ 7 " in line)
    assert f"{found['by_class'][7]['token_accuracy']:.2%}" in seven
    shown = ape("report", "--format", "markdown")[0]
    assert "Images, top-1 accuracy" in shown
    for text in (err, out, table, shown):
        assert [word for word in ("token", "exact match", "decoding") if word in text] == []
