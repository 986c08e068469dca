"""Suggestions in messages: similar names, whatever their case, and the words of other programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ape_cli import position
from ape_cli.core.errors import nearest
from ape_cli.runs import config
from tests.conftest import ape, write


@pytest.mark.parametrize(
    ("name", "near"),
    [("RoPE", "rope"), ("T5", "t5"), ("ORTHOGONAL_SEQ", "orthogonal-seq"), ("TransformerXL", "transformer-xl")],
)
def test_case_and_hyphens_do_not_count(name: str, near: str) -> None:
    assert nearest(name, position.names()) == near


def test_nothing_similar_is_no_suggestion() -> None:
    assert nearest("zzzz", position.names()) is None
    assert nearest("lr", ["warmup"], {"lr": "lr_peak"}) is None  # a word for another thing


def test_every_scheme_is_found_by_its_other_names() -> None:
    """No word is the name of a scheme, or a word for two schemes."""
    words = [(word, name) for name in position.names() for word in position.load(name).synonyms]
    assert len(dict(words)) == len(words) > 15
    assert not dict(words).keys() & set(position.names())
    for word, name in words:
        assert nearest(word.upper(), position.names(), dict(words)) == name


def test_words_of_other_programs_are_understood(here: Path) -> None:
    err = ape("train", "--scheme", "Rotary", "--task", "copy", code=2)[1]
    assert "did you mean 'rope'? (searched: " in err
    err = ape("train", "--scheme", "rope", "--task", "copy", "--set", "lr=0.1", code=2)[1]
    assert "did you mean 'lr_peak'?" in err


def test_synonyms_of_settings_are_words_for_settings() -> None:
    fields = config.SequenceConfig.model_fields
    assert set(config._SYNONYMS.values()) <= set(fields)
    assert not set(config._SYNONYMS) & set(fields)


@pytest.mark.parametrize("words", [["train", "--scheme", "rope", "--data"], ["eval", "--data"], ["show"]], ids=str)
def test_an_unknown_dataset_lists_those_that_there_are(words: list[str], here: Path) -> None:
    write(Path("elsewhere/copy-7"), "copy", rows=(4, 2, 2))
    err = ape(*words, "Copy7", "--datasets", "elsewhere", code=1)[1]
    assert "no such dataset" in err
    assert "allowed: a folder, or one of those in elsewhere: copy-7\n" in err
    assert "did you mean 'copy-7'?" in err
    assert "one of those in datasets: none\n" in ape(*words, "Copy7", code=1)[1]


def test_a_name_in_another_folder_of_datasets(here: Path) -> None:
    write(Path("elsewhere/words"), "copy", rows=(40, 10, 10))
    assert "copy, train row 0" in ape("show", "words", "--datasets", "elsewhere")[0]
    settings = ["--set", "steps=2", "--set", "validate_every_steps=2", "--preset", "tiny", "--device", "cpu"]
    ape("train", "--scheme", "none", "--data", "words", "--datasets", "elsewhere", *settings)
    done = ape("eval", "--data", "words", "--datasets", "elsewhere", "--split", "validation", "--device", "cpu")
    assert "validation" in done[0] + done[1]
    assert "1 dataset, 0 damaged" in ape("verify", "--data", "words", "--datasets", "elsewhere")[0]
