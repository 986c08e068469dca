"""Choosing a kind of attention: configurations and their names, errors for invalid pairs, runs, and report tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from ape_cli import attention, experiment, position
from ape_cli.attention import Attention, AttentionContext
from ape_cli.core.errors import UsageError
from ape_cli.data.loader import Dataset
from ape_cli.evaluation import evaluate
from ape_cli.experiment import ExperimentSpec, spec
from ape_cli.models import factory
from ape_cli.models.transformer import Transformer
from ape_cli.reports import aggregation
from ape_cli.reports.views import Options
from ape_cli.runs.config import Config
from ape_cli.runs.registry import open_registry
from ape_cli.training import trial
from ape_cli.training.execution import Execution

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
        (kind, "relative", 1.0, "a term of the dot product's expansion")
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


def test_all_else_is_allowed(words: Dataset) -> None:
    """Every kind can be used with every scheme that reads words, except for the pairs above."""
    refused = {(kind, scheme) for kind, scheme, decay, _ in REFUSED if decay == 1.0}
    for kind in ALL:
        for scheme in ("none", "sinusoidal", "relative", "rope", "orthogonal-seq"):
            if (kind, scheme) not in refused:
                experiment.complete(resolve(kind, scheme), words)
    for kind in ("dot", "epanechnikov", "boxcar"):
        assert experiment.complete(resolve(kind, decay=0.9), words).decay == 0.9


def test_an_encoder_s_kind_needs_an_encoder(words: Dataset) -> None:
    with pytest.raises(UsageError, match="acts only in an encoder"):
        factory.build(experiment.complete(resolve("clustered", encoder_layers=0), words), words.structure, words.ids)


def test_a_bias_of_no_content_is_added(words: Dataset) -> None:
    """A bias that depends on positions only, as in T5, is added to the scores, also to those of kernels."""

    class Line(position.Scheme):
        source = "an example"

        def bias(self, q: torch.Tensor, q_context: position.Context, k_context: position.Context) -> torch.Tensor:
            apart = (q_context.positions[:, :, None] - k_context.positions[:, None, :]).abs()
            return -0.5 * apart[:, None].to(q.dtype)

    scheme = Line(position.make("none", 16, 2).shape)
    at = scheme.context(torch.arange(5)[None])
    q, k = torch.randn(2, 1, 2, 5, 8, dtype=torch.float64)
    context, plain = AttentionContext.of(scheme, at, at), position.make("none", 16, 2)
    eye = torch.eye(5, dtype=torch.float64).expand(1, 2, -1, -1)
    for name in ALL:
        kind = attention.make(name)
        if not kind.refuses_bias:
            weights, without = (kind.attend(s, q, k, eye, context, 0.0) for s in (scheme, plain))
            ratio = (weights / without).log()
            expected = scheme.bias(q, at, at)
            assert torch.allclose(ratio - ratio[..., :1], (expected - expected[..., :1]).expand_as(ratio), atol=1e-9)


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


@pytest.mark.parametrize("kind", ALL)
def test_a_run_of_every_kind(words: Dataset, tmp_path: Path, kind: str) -> None:
    """A run is trained, evaluated with both kinds of decoding and loaded again, and tables name its attention."""
    found = open_registry(tmp_path)
    wanted = resolve(kind, steps=8, validate_every_steps=2)
    done = trial.run_trial(experiment.of(wanted, words), found, Execution(CPU))
    assert done.trained
    assert done.run.history()["step"].to_list() == [2, 4, 6, 8]
    assert 0 <= done.evaluation["overall"]["token_accuracy"] <= 1
    assert evaluate.evaluate(done.run, words, split="test", decode="greedy", device=CPU)["decode"] == "greedy"
    (line,) = aggregation.lines(found, Options()).to_dicts()
    assert line["attention"] == kind
    assert (f"attention={kind}" in line["variant"]) == (kind != "dot")
    model = factory.build(done.run.record.config, words.structure, words.ids)
    assert model.encoder[0].self_attention.attention_type.name == kind
