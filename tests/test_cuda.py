"""A GPU gives the values, gradients and resumed runs of a CPU, and a training step never synchronises with the GPU.

The tests are skipped where there is no GPU. A tolerance bounds ||a - b|| / ||b||, once over all scores of a batch and
once over all gradients of a model.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from ape_cli import attention, experiment, position
from ape_cli.data.batches import SequenceBatch, few_lengths
from ape_cli.data.loader import Dataset, Split
from ape_cli.experiment import ExperimentSpec
from ape_cli.models import factory, transformer
from ape_cli.models.device import products
from ape_cli.models.transformer import loss
from ape_cli.runs.config import PRECISIONS, Config
from ape_cli.training.cuda_graphs import Replay
from ape_cli.training.execution import Execution
from ape_cli.training.trainer import Stopped, Trainer
from tests.training.test_trainer import Memory, stopping_at

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]
CPU, GPU = torch.device("cpu"), torch.device("cuda")
NEAR = {"fp32": 1e-5, "tf32": 5e-3, "bf16": 5e-2}
NEAR_GRADIENT = {"fp32": 1e-4, "tf32": 2e-2, "bf16": 2e-1}


def settled(scheme: str, data: Dataset, kind: str = "dot", **settings: Any) -> Config:
    chosen = {"d_model": 64, "steps": 12, "validate_every_steps": 6} | settings
    found = ExperimentSpec(
        preset="tiny",
        scheme=scheme,
        attention=kind,
        model="decoder" if position.load(scheme).causal_only else "encoder-decoder",
        seed=3,
        set=chosen,
    ).config("sequence")
    return experiment.complete(found, data)


@pytest.fixture
def data(scheme: str, words: Dataset, trees: Dataset, grids: Dataset) -> Dataset:
    """A dataset whose structure the scheme reads: trees, else grids, else words."""
    reads = position.load(scheme).reads
    return next(d for d in (trees, grids, words) if d is words or reads(d.structure))


def first(data: Dataset, found: Config, few: bool = False) -> SequenceBatch:
    split = data.split("train")
    assert isinstance(split, Split)
    padding: dict[str, Any] = {"padding": few_lengths} if few else {}
    return next(iter(split.batches(16, 1, options=experiment.of(found, data).batch_options(), **padding)))


def results(
    found: Config, data: Dataset, batch: SequenceBatch, device: torch.device, name: str
) -> tuple[Tensor, Tensor]:
    """Returns the scores at the labels, [labels, symbols], and all gradients as one vector."""
    model = factory.of_experiment(experiment.of(found, data)).to(device).train()
    there = transformer.to_device(batch, model, device)
    with products(name):
        scores = transformer.forward(model, there, name)
        loss(scores, there.labels).backward()
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
    return scores[there.label_mask].float().cpu().detach(), torch.cat([g.flatten().cpu() for g in gradients])


def apart(one: Tensor, other: Tensor) -> float:
    return float((one.double() - other.double()).norm() / other.double().norm())


@pytest.mark.parametrize("name", PRECISIONS)
@pytest.mark.parametrize("scheme", position.names())
def test_schemes(scheme: str, name: str, data: Dataset) -> None:
    """The CPU uses exact lengths. The GPU uses few lengths and plans."""
    found = settled(scheme, data)
    one = results(found, data, first(data, found, few=True), GPU, name)
    other = results(found, data, first(data, found), CPU, "fp32")
    assert apart(one[0], other[0]) < NEAR[name]
    assert apart(one[1], other[1]) < NEAR_GRADIENT[name]


@pytest.mark.parametrize("name", PRECISIONS)
@pytest.mark.parametrize("kind", attention.names())
def test_kinds_of_attention(kind: str, name: str, words: Dataset) -> None:
    found = settled("rope", words, kind)
    one = results(found, words, first(words, found, few=True), GPU, name)
    other = results(found, words, first(words, found), CPU, "fp32")
    if kind != "clustered" or name == "fp32":  # rounding can move a query to another cluster
        assert apart(one[0], other[0]) < NEAR[name]
        assert apart(one[1], other[1]) < NEAR_GRADIENT[name]


@pytest.mark.parametrize("length", [100, 384])
@pytest.mark.parametrize("name", ["none", "rope", "alibi", "orthogonal-seq"])
def test_backends_of_attention(name: str, length: int) -> None:
    """Causal attention over rows of different lengths has the values and gradients of the plain backend."""
    generator = torch.Generator().manual_seed(8)
    scheme = position.make(name, 64, 4, max_size=length, decay=1.0).to(GPU)
    mask = torch.ones(2, length, dtype=torch.bool, device=GPU)
    mask[1, length // 2 :] = False
    found = []
    draws = torch.randn(3, 2, 4, length, 16, generator=generator)
    for chosen in ("plain", "fused"):
        q, k, v = (x.to(GPU).requires_grad_() for x in draws)
        here = scheme.context(torch.arange(length, device=GPU)[None], mask, causal=True)
        with attention.use_backend(chosen), products("fp32"):
            mixed = attention.make().attend(scheme, q, k, v, attention.AttentionContext.of(scheme, here, here), 0.0)
            (mixed[0].pow(2).sum() + mixed[1, :, : length // 2].pow(2).sum()).backward()
        gradients = [x.grad for x in (q, k, v)]
        found.append([mixed[0], mixed[1, :, : length // 2], *gradients])
    for one, other in zip(*found, strict=True):
        assert one is not None
        assert other is not None
        assert torch.isfinite(other).all()
        assert apart(other, one) < 1e-5


class Steps:
    """A training loop on the GPU, with or without the recording of steps as CUDA graphs."""

    def __init__(self, found: Config, data: Dataset, records: bool = True) -> None:
        self.loop = Trainer(experiment.of(found, data), Memory(), Execution(GPU))
        assert isinstance(self.loop.replay, Replay)
        self.loop.replay.records &= records

    def run(self) -> list[Tensor]:
        self.loop.run()
        return [p.detach().clone() for p in self.loop.model.parameters()]


@pytest.mark.parametrize("scheme", position.names())
def test_a_step_never_waits(scheme: str, data: Dataset) -> None:
    loop = Trainer(experiment.of(settled(scheme, data, dropout=0.1), data), Memory(), Execution(GPU))
    loop.model.train()
    batches = [batch for (_, _, batch), _ in zip(loop.batches(), range(3), strict=False)]
    loop.step(batches[0])  # the first step loads libraries, which may synchronise
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for batch in batches:
            there = batch.to(GPU)
            loop.update(there, loop.replay.labels if loop.replay else 1)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("scheme", position.names())
def test_recorded_steps_are_the_usual_ones(scheme: str, dropout: float, data: Dataset) -> None:
    """Dropout masks are the same as well, because a recorded step continues the same random stream."""
    found = settled(scheme, data, dropout=dropout, steps=24, validate_every_steps=24)
    recorded = Steps(found, data)
    one, other = recorded.run(), Steps(found, data, records=False).run()
    assert recorded.loop.replay is not None
    assert recorded.loop.replay.recorded, "no shape came twice"
    for a, b in zip(one, other, strict=True):
        assert torch.allclose(a, b, rtol=1e-3, atol=2e-5)


@pytest.mark.parametrize("scheme", ["none", "orthogonal-seq", "orthogonal-tree"])
def test_a_resumed_run_ends_with_the_same_weights(scheme: str, data: Dataset) -> None:
    found = settled(scheme, data, dropout=0.1, steps=24, validate_every_steps=12)
    straight = Trainer(experiment.of(found, data), Memory(), Execution(GPU))
    straight.run()
    store = Memory()
    with pytest.raises(Stopped):
        Trainer(experiment.of(found, data), store, Execution(GPU, stop=stopping_at(13))).run()
    resumed = Trainer(experiment.of(found, data), store, Execution(GPU))
    assert resumed.progress.step == 13
    resumed.run()
    for a, b in zip(straight.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.allclose(a, b, rtol=1e-3, atol=2e-5)
