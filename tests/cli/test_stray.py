"""Words that a command does not take as arguments: the error names the option that they are probably meant for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ape_cli.data.loader import Dataset
from tests.conftest import ape
from tests.reports.test_aggregation import add


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["fields", "rope"], "ape fields --scheme rope"),
        (["runs", "copy-rope", "x"], "ape runs --filter run~copy-rope"),
        (["report", "copy"], "ape report --task copy"),
        (["train", "rope", "--task", "copy"], "ape train --scheme rope"),
    ],
)
def test_a_word_that_is_no_argument(words: list[str], meant: str) -> None:
    err = ape(*words, code=2)[1]
    assert re.sub(r"[\s│]+", " ", err).rstrip("╯─ ").endswith(f"; did you mean: {meant}")


@pytest.mark.parametrize("given", [["--scheme", "rope"], ["--scheme=rope"]])
def test_no_option_is_proposed_that_is_there(given: list[str]) -> None:
    err = ape("train", *given, "copy", code=2)[1]
    assert "unexpected extra argument" in err
    assert "did you mean" not in err


def test_a_dataset_in_place_of_a_run(words: Dataset, here: Path) -> None:
    add(here / "results", "rope", 0.5)
    for given in (str(words.folder), words.name):
        err = ape("verify", given, "--datasets", str(words.folder.parent), code=2)[1]
        assert "this is a dataset, and not a run" in err
        assert f"ape verify --data {given}" in err
    assert "unknown run" in ape("verify", "nothing", code=2)[1]


@pytest.mark.parametrize(
    ("task", "example"),
    [("copy", "ape gen copy --n 5000"), ("images", "ape gen images --source digits"), ("trees", "--source PATH")],
)
def test_the_example_is_about_the_task(task: str, example: str) -> None:
    assert ape("gen", task, "--help")[0].rstrip().endswith(example)
