"""Choosing a kind of attention: configurations and their names, errors for invalid pairs, runs, and report tables."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ape_cli import attention, experiment, position
from ape_cli.attention import Attention
from ape_cli.core.errors import UsageError
from ape_cli.data.loader import Dataset
from ape_cli.experiment import ExperimentSpec, spec
from ape_cli.models import factory
from ape_cli.models.transformer import Transformer
from ape_cli.runs.config import Config

CPU = torch.device("cpu")
ALL = attention.names()


def resolve(kind: str, scheme: str = "rope", **settings: Any) -> Config:
    chosen = {"steps": 20, "validate_every_steps": 5, "dropout": 0.1} | settings
    return ExperimentSpec(preset="tiny", scheme=scheme, attention=kind, seed=3, set=chosen).config("sequence")


# Configurations ----------------------------------------------------------------------------------


def test_settings_reach_the_kind(words: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    model = factory.build(experiment.complete(resolve("clustered", clusters=5), words), words.structure, words.ids)
    kind = model.encoder[0].self_attention.attention_type
    assert (kind.clusters, kind.iterations) == (5, 5)
    for call, message in [
        (lambda: resolve("clustered", cluster=5), r"unknown setting[\s\S]*did you mean 'clusters'"),
        (lambda: resolve("dot", attention="linear"), "unknown setting"),
        (lambda: resolve("liner"), r"unknown attention[\s\S]*did you mean 'linear'"),
        (lambda: experiment.complete(resolve("clustered", clusters=0), words), "bad clusters"),
    ]:
        with pytest.raises(UsageError, match=message):
            call()
    monkeypatch.setitem(spec._PARTS, "scheme", lambda name: {"clusters": 1})
    with pytest.raises(UsageError, match="an option of scheme rope and of attention clustered"):
        resolve("clustered", clusters=3)


# Refusals ----------------------------------------------------------------------------------------

NO_LOGITS = "no logits of single queries and keys"
TOWARDS_ZERO = "never positive; scaled towards zero, they would favour distant keys"
REFUSED = [
    *[(kind, "relative", 1.0, NO_LOGITS) for kind in ("linear", "softmax-free", "clustered")],
    *[(kind, "rope", 0.9, NO_LOGITS) for kind in ("linear", "clustered")],
    *[(kind, "rope", 0.9, TOWARDS_ZERO) for kind in ("euclidean", "squared-euclidean", "softmax-free")],
    *[
        (kind, "relative", 1.0, "it belongs to the dot product")
        for kind in ("euclidean", "squared-euclidean", "epanechnikov", "boxcar")
    ],
]


@pytest.mark.parametrize(("kind", "scheme", "decay", "reason"), REFUSED)
def test_what_makes_no_sense_is_refused(words: Dataset, kind: str, scheme: str, decay: float, reason: str) -> None:
    """A configuration, a model and a layer raise the same error, and it states the reason."""
    made, own = position.make(scheme, 16, 2, max_size=4, decay=decay), attention.make(kind)
    sizes: dict[str, Any] = {"ids": 9, "d_ff": 8, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
    for call in (
        lambda: experiment.complete(resolve(kind, scheme, decay=decay), words),
        lambda: Transformer(made, attention_type=own, **sizes),
        lambda: Attention(made, 0.0, own),
    ):
        with pytest.raises(UsageError, match=rf"attention {kind} cannot take[\s\S]*{reason}[\s\S]*allowed: .*dot"):
            call()
    Transformer(made, **sizes)  # the default kind is allowed


def test_an_encoder_s_kind_needs_an_encoder(words: Dataset) -> None:
    with pytest.raises(UsageError, match="acts only in an encoder"):
        factory.build(experiment.complete(resolve("clustered", encoder_layers=0), words), words.structure, words.ids)


# The locality bias -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ALL)
def test_a_kind_without_locality_bias_turns_it_off(words: Dataset, kind: str) -> None:
    """The default decay of orthogonal-* is 0.98. A kind that takes no decay sets it to 1, and tables show this."""
    found = experiment.complete(resolve(kind, "orthogonal-seq"), words)
    assert found.decay == (1.0 if attention.load(kind).refuses_decay else 0.98)
    assert experiment.complete(resolve(kind, "orthogonal-seq", decay=1.0), words).decay == 1.0
    shown = experiment.of(found, words).variant
    assert shown.get("attention", "dot") == kind
    assert shown.get("decay", 0.98) == found.decay


# Runs --------------------------------------------------------------------------------------------
