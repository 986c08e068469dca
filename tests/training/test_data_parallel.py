"""Several ranks that train one run: shares of a batch, gradients and dropout, in one process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.distributed import HashStore
from torch.nn import functional

from ape_cli import experiment
from ape_cli.core.errors import UsageError
from ape_cli.core.vocabulary import PAD
from ape_cli.data.loader import Dataset
from ape_cli.experiment import ExperimentSpec
from ape_cli.experiment.reading import structure_for
from ape_cli.models import checkpoint, factory, transformer
from ape_cli.runs.config import Config
from ape_cli.training import execution
from ape_cli.training.execution import SINGLE_PROCESS, DistributedGroup, Execution, ProcessGroup, RankFailedError
from ape_cli.training.trainer import Trainer

CPU = torch.device("cpu")


class Apart(DistributedGroup):
    """A rank that never needs anything from the others."""

    def __init__(self, rank: int, size: int) -> None:
        super().__init__(rank, size, rank, None)  # type: ignore[arg-type]

    parallel, all_reduce = ProcessGroup.parallel, ProcessGroup.all_reduce
    broadcast_state = ProcessGroup.broadcast_state


def tiny(scheme: str, data: Dataset, **settings: Any) -> Config:
    found = ExperimentSpec(preset="tiny", scheme=scheme, seed=3, set={"dropout": 0.0} | settings).config("sequence")
    return experiment.complete(found, data)


# Shares of a batch


@pytest.mark.parametrize("kind", ["words", "trees"])
def test_shares_are_the_rows_of_the_batch_as_it_is_padded(kind: str, request: pytest.FixtureRequest) -> None:
    data: Dataset = request.getfixturevalue(kind)
    split, seen = data.split("train"), 0
    whole = list(split.batches(17, seed=5))
    shares = [list(split.batches(17, seed=5, share=(i, 3))) for i in range(3)]
    for batch, *parts in zip(whole, *shares, strict=True):
        given = [p for p in parts if p.label_mask.any()]
        assert len(given) == min(3, len(batch.row))
        own = batch.row.argsort()
        together = np.concatenate([p.row for p in given])
        order = together.argsort()
        assert together[order].tolist() == batch.row[own].tolist()
        # all of one length, so that they can be joined
        for name in ("source_ids", "source_mask", "input_ids", "labels"):
            joined = torch.cat([getattr(p, name) for p in given])[torch.from_numpy(order)]
            assert torch.equal(joined, getattr(batch, name)[torch.from_numpy(own)]), name
        symbols = int(batch.label_mask.sum()), int(batch.source_mask.sum())
        assert batch.counts == symbols
        assert all(p.counts == symbols for p in parts)
        seen += len(together)
    assert seen == split.rows


def test_a_share_without_rows_asks_for_nothing(trees: Dataset) -> None:
    """Batches of two rows, of which the third rank has none."""
    for batch in trees.split("train").batches(2, seed=5, share=(2, 3)):
        assert batch.labels.shape[0] == 1
        assert (batch.labels == PAD).all()
        assert batch.source_mask.any()
        assert batch.counts[0] > 0


# Gradients


@pytest.mark.parametrize(("batch_size", "seed"), [(2, 6), (8, 1)])
@pytest.mark.parametrize("scheme", ["rope", "orthogonal-tree"])
def test_the_mean_of_the_ranks_gradients_is_that_of_the_whole_batch(
    trees: Dataset, scheme: str, batch_size: int, seed: int
) -> None:
    """The average over three ranks, of which the third may have no row, compared with the batch in float64."""
    wanted = tiny(scheme, trees, batch_size=batch_size)
    read = structure_for(scheme, trees.structure)
    batch = next(trees.split("train").batches(batch_size, seed, structure=read))
    assert len(set(batch.label_mask.sum(1).tolist())) > 1  # otherwise any count of labels would pass
    model = factory.build(wanted, trees.structure, trees.ids).double()
    scores = transformer.forward(model, batch, "fp32")
    functional.cross_entropy(scores.flatten(0, 1), batch.labels.flatten(), ignore_index=PAD).backward()

    total = [torch.zeros_like(p) for p in model.parameters()]
    for rank in range(3):
        loop = Trainer(experiment.of(wanted, trees), None, Execution(CPU, group=Apart(rank, 3)))
        loop.model.double()
        loop.step(next(trees.split("train").batches(batch_size, seed, structure=read, share=(rank, 3))))
        for added, p in zip(total, loop.model.parameters(), strict=True):
            assert p.grad is not None
            added.add_(p.grad)
    for (name, p), added in zip(model.named_parameters(), total, strict=True):
        assert p.grad is not None
        assert torch.allclose(added / 3, p.grad, rtol=1e-4, atol=1e-7), name  # nats are float32


# Dropout


def test_each_rank_drops_out_on_its_own(words: Dataset) -> None:
    wanted = tiny("rope", words, dropout=0.3)
    batch = next(words.split("train").batches(8, seed=1))

    def drawn(world: ProcessGroup) -> torch.Tensor:
        loop = Trainer(experiment.of(wanted, words), None, Execution(CPU, group=world))
        return transformer.forward(loop.model.train(), batch, "fp32").detach()

    alone, *others = (drawn(world) for world in (SINGLE_PROCESS, Apart(0, 3), Apart(1, 3), Apart(2, 3)))
    assert torch.equal(alone, others[0])
    assert torch.equal(drawn(Apart(1, 3)), others[1])  # the same again
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert not torch.allclose(others[i], others[j], atol=1e-3), (i, j)


def test_a_rank_that_the_state_does_not_know_begins_a_stream() -> None:
    """With the state of two ranks, the second continues with its own, and a third with a new one that depends on the
    step.
    """
    torch.manual_seed(1)
    stored = checkpoint.streams(CPU)
    torch.manual_seed(2)
    stored |= {checkpoint.of_rank(name, 1): value for name, value in checkpoint.streams(CPU).items()}
    assert set(stored) == {"rng.cpu", "rng.cpu.1"}
    draws = []
    for rank, step in ((0, 7), (1, 7), (2, 7), (2, 8)):
        checkpoint.restore_streams(stored, CPU, rank, Apart(rank, 3).seed(42, step))
        draws.append(torch.rand(4))
    for seed, drawn in ((1, draws[0]), (2, draws[1])):
        torch.manual_seed(seed)
        assert torch.equal(torch.rand(4), drawn)
    assert len({tuple(d.tolist()) for d in draws}) == 4


# Roles of ranks


def test_a_rank_that_waits_learns_that_another_one_has_failed() -> None:
    """Only the first one that fails reports its error."""
    store = HashStore()
    ranks = [DistributedGroup(rank, 3, rank, store) for rank in range(3)]
    assert ranks[0].broadcast(lambda: [1, "a"]) == ranks[1].broadcast(lambda: None) == [1, "a"]
    assert ranks[1].reports_error()
    assert not ranks[2].reports_error()
    with pytest.raises(RankFailedError), ranks[0].initialised(CPU):
        pass


def test_a_group_is_of_several_processes_that_find_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    with execution.process_group() as group:
        assert group is SINGLE_PROCESS
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with pytest.raises(UsageError, match="MASTER_ADDR"), execution.process_group():
        pass
