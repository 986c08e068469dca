"""A model card as the library of the Hugging Face Hub reads it."""

from __future__ import annotations

import pytest

from ape_cli.evaluation.sharing.exported import model_card
from tests.evaluation.sharing.conftest import Both


def test_the_card_says_what_the_model_is(of_trees: Both) -> None:
    hub = pytest.importorskip("huggingface_hub")
    done, model = of_trees
    card = hub.ModelCard(model_card(model.about, model.vocabulary))
    assert card.data.library_name == "ape-cli"
    assert {"orthogonal-tree", "tree-rotate"} <= set(card.data.tags)
    assert card.data.model_name == done.name
    metrics = {found.metric_type: found.metric_value for found in card.data.eval_results}
    assert metrics["accuracy"] == model.about["scores"][0]["overall"]["token_accuracy"]
    assert {found.dataset_split for found in card.data.eval_results} == {"test"}
    for text in (
        "ape_cli.load(",
        "ape train --scheme orthogonal-tree",
        "ape gen tree-rotate --order breadth",
        done.name,
    ):
        assert text in card.text
    assert f"{100 * metrics['accuracy']:.2f}" in card.text
