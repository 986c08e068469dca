"""Model cards: what they say, and that their command trains the same configuration."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from markdown_it import MarkdownIt  # a dependency of rich

from ape_cli.core.vocabulary import FIRST_SYMBOL
from ape_cli.data.loader import Dataset
from ape_cli.evaluation.sharing.exported import model_card, train_command
from ape_cli.experiment import of
from ape_cli.runs.config import read_config
from tests.conftest import ape
from tests.evaluation.sharing.conftest import Both


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--set", "interleaved=false", "--set", "base=500.0", "--set", "epochs=2", "--set", "lr_peak=0.002"),
        ("--attention", "linear", "--precision", "bf16"),
        ("--set", 'scaling={"rope_type": "linear", "factor": 4.0}'),
        ("--structure", "seq", "--seed", "7", "--set", "decay=0.9"),
    ],
)
def test_the_command_of_the_card_trains_the_same_configuration(words: tuple[str, ...], trees: Dataset) -> None:
    """What the command resolves to is the configuration that it was written for."""

    def resolved(*command: str) -> dict[str, Any]:
        return json.loads(ape(*command, "--device", "cpu", "--dry-run", "--json")[0])["config"]

    name = str(trees.folder)
    config = resolved("train", "--scheme", "rope", "--preset", "tiny", *words, "--data", name)
    variant = of(read_config(config), trees).variant
    about = {"config": config, "variant": variant, "dataset": {"name": name}}
    command = shlex.split(train_command(about))
    assert command[0] == "ape"
    assert resolved(*command[1:]) == config


def test_names_that_are_markup_stay_text(of_words: Both) -> None:
    """A run.json from elsewhere may have any text as the name of its dataset, its preset, versions or commit."""
    _, model = of_words
    evil = "`<img src=x onerror=alert(1)>![y](http://z/p.png)\x1b[2J"
    about = json.loads(json.dumps(model.about))
    about |= {"run": evil, "commit": evil, "versions": {evil: evil}}
    about["config"]["preset"] = about["dataset"]["name"] = evil
    card = model_card(about, [*model.vocabulary[:FIRST_SYMBOL], "<b>", "a|b"])
    assert "<b>" not in card
    assert "a\\|b" in card
    assert "\x1b" not in card
    front, _, text = card.removeprefix("---").partition("\n---\n")
    assert not [line for line in front.splitlines() if "<img" in line and '"' not in line]
    assert "<img" not in MarkdownIt("commonmark").render(text)


def test_the_card_of_images_speaks_of_images(of_pictures: Both) -> None:
    """An image has one label: its accuracy is not of tokens, and nothing is decoded."""
    _, model = of_pictures
    card = model_card(model.about, model.vocabulary)
    assert "| accuracy (%) | cross-entropy (nats) | rows |" in card
    for word in ("token accuracy", "exact match", "forcing", "greedy"):
        assert word not in card
