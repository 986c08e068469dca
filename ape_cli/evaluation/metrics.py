"""Scores by teacher forcing or greedy decoding, kept for each row, so that every average is a ratio of two sums.

Units: token accuracy is a fraction of the target tokens (without padding), cross-entropy is in nats for each token.

In greedy decoding, the model reads its own output, and always writes the symbol with the best score.

The place of the next symbol follows from what is already written, and never from the answer:
- In sequences it is the next place, until EOS.
- In trees it is an open place of the linearisation: the one that was opened first (breadth) or last (depth). The root
  is open at first. A symbol that is an operator opens its children (`Trees.opens`; in truncate the pointer's symbol
  is a leaf and opens none). The tree is finished when no place is open.
- In grids and rings it is the next of their places, in order. The shape of the answer depends on the source alone.
  The same holds for trees of a task that declares `positions_given`: it promises that the source determines the places.
- Tags are written all at once, because none depends on another.

A row writes as many symbols as its answer has, so nothing depends on the other rows of the batch.

Scores: a label is correct if the same symbol was written at its place. In trees this is its node, wherever it is in
the linearisation. A missing symbol is wrong, and so is the EOS of an answer that the model continues beyond its end.
The first mistake is the same as under teacher forcing, so exact match is equal under both; token accuracy is not.

Shapes: B rows, N source tokens, M target tokens, Q labels, V ids, k children.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ape_cli.core.rng import I64
from ape_cli.core.vocabulary import EOS, PAD, SOS
from ape_cli.data.batches import Batch, SequenceBatch
from ape_cli.data.collation import PositionReading
from ape_cli.models.device import forward_pass, products
from ape_cli.models.transformer import Model, SequenceModel, forward, to_device
from ape_cli.structure import Seq
from ape_cli.tasks import BaseTask
from ape_cli.tasks._trees import Trees, unfolds


@dataclass
class MetricSums:
    """Sums of metrics, kept for each row. Each field has one array for each batch."""

    row: list[np.ndarray] = field(default_factory=list)
    size: list[np.ndarray] = field(default_factory=list)
    op: list[np.ndarray] = field(default_factory=list)
    tokens: list[np.ndarray] = field(default_factory=list)  # number of tokens to be predicted
    correct: list[np.ndarray] = field(default_factory=list)
    nats: list[np.ndarray] = field(default_factory=list)  # sum of the cross-entropy

    def add(self, batch: Batch, predicted: Tensor, nats: Tensor) -> None:
        """Add the rows of a batch.

        predicted: int64 [B, Q] ids; nats: floating point [B, Q], the cross-entropy of each label.
        """
        mask = batch.label_mask
        self.row.append(batch.row)
        self.size.append(batch.size)
        self.op.append(batch.op)
        self.tokens.append(mask.sum(1).cpu().numpy())
        self.correct.append(((predicted == batch.labels) & mask).sum(1).cpu().numpy())
        self.nats.append((nats.double() * mask).sum(1).cpu().numpy())

    def columns(self) -> dict[str, np.ndarray]:
        """Each field as one array [R], with an entry for each of the R rows of the split."""
        return {name: np.concatenate(parts) if parts else np.empty(0) for name, parts in vars(self).items()}

    @property
    def token_accuracy(self) -> float:
        """The share of correct tokens among all target tokens."""
        return float(sum(c.sum() for c in self.correct) / max(1, sum(t.sum() for t in self.tokens)))

    @property
    def cross_entropy(self) -> float:
        """The mean cross-entropy in nats for each token."""
        return float(sum(n.sum() for n in self.nats) / max(1, sum(t.sum() for t in self.tokens)))


@torch.no_grad()
def teacher_forced(model: Model, batches: Iterable[Batch], device: torch.device, precision: str) -> MetricSums:
    """Score every label given the true prefix. The model is left in the mode (training or evaluation) that it had."""
    tally, training = MetricSums(), model.training
    model.eval()
    with products(precision):
        for batch in batches:
            on_device = to_device(batch, model, device)
            scores = forward(model, on_device, precision).float()
            nats = torch.nn.functional.cross_entropy(
                scores.transpose(1, 2), on_device.labels, ignore_index=batch.ignore_index, reduction="none"
            )
            tally.add(on_device, scores.argmax(-1), nats)
    model.train(training)
    return tally


def greedy(
    model: SequenceModel,
    batches: Iterable[SequenceBatch],
    device: torch.device,
    precision: str,
    task: BaseTask | None,
    reading: PositionReading,
) -> MetricSums:
    """Score what the model writes on its own. The model is left in the mode (training or evaluation) that it had.

    `reading` says how the positions of the batches were read. Raises `DataError` like `written`.
    """
    tally, training = MetricSums(), model.training
    model.eval()
    for batch, predicted in written(model, batches, device, precision, task, reading):
        tally.add(batch, predicted, torch.zeros_like(batch.labels, dtype=torch.float32))
    model.train(training)
    return tally


def written(
    model: SequenceModel,
    batches: Iterable[SequenceBatch],
    device: torch.device,
    precision: str,
    task: BaseTask | None,
    reading: PositionReading,
) -> Iterator[tuple[SequenceBatch, Tensor]]:
    """Yield each batch, on the device, with what a model in evaluation mode writes for it: int64 [B, Q].

    `task` may be None if no trees unfold. Each symbol is at the place of its label. PAD is where none was written.
    Raises `DataError` for trees of a task that does not define how they unfold.
    """
    grows = task is not None and unfolds(task, reading.data, reading.tagged)
    for batch in batches:
        on_device = batch.to(device)
        width = model.scheme.shape.d_model
        with torch.no_grad(), products(precision), forward_pass(precision, device, width):
            if reading.tagged:  # the model reads no answer of its own
                predicted = model(*on_device.inputs).argmax(-1)
            elif grows:
                assert isinstance(task, Trees)
                predicted = _unfold(_Writer(model, on_device), on_device, task, reading)
            else:
                predicted = _follow(_Writer(model, on_device), on_device, reading)
        yield on_device, predicted


class _Writer:
    """The model, together with the encoded sources of a batch."""

    def __init__(self, model: SequenceModel, batch: SequenceBatch) -> None:
        self.model, self.past = model, model.past()
        self.memory, self.source = model.encode(batch.source_ids, batch.source_positions, batch.source_mask)

    def next(self, written: Tensor, positions: Tensor) -> Tensor:
        """The best symbol after the last prefix. Each call has one token more than the one before.

        written: int64 [B, m], SOS first; positions: int64 [B or 1, m] -> int64 [B]
        """
        scores = self.model.decode(written, positions, self.memory, self.source, past=self.past)
        return scores[:, -1].argmax(-1)


def _follow(writer: _Writer, batch: SequenceBatch, reading: PositionReading) -> Tensor:
    """Write symbols at places that are known beforehand. -> int64 [B, M], PAD after the end

    A sequence ends with EOS.
    """
    rows, length = batch.labels.shape
    written = batch.labels.new_full((rows, 1), SOS)
    ended = torch.zeros(rows, dtype=torch.bool, device=written.device)
    for _ in range(length):
        chosen = writer.next(written, _positions(written, batch, reading)).masked_fill(ended, PAD)
        written = torch.cat([written, chosen[:, None]], dim=1)
        ended |= (chosen == EOS) & (reading.data == Seq())
        if ended.all():
            break
    return functional.pad(written[:, 1:], (0, length + 1 - written.shape[1]), value=PAD)


def _positions(written: Tensor, batch: SequenceBatch, reading: PositionReading) -> Tensor:
    """The positions of the tokens written so far, starting with SOS. int64 [B, m] -> int64 [B or 1, m (, C)]

    They are those of the batch, unless the map of positions reads the tokens.
    """
    positions = batch.input_positions[:, : written.shape[1]]
    if (drawn := reading.positions) is None or not drawn.sampler.reads_tokens:
        return positions
    places = drawn.places(written.cpu().numpy(), positions.cpu().numpy())
    sources = batch.source_mask.sum(1).cpu().numpy()
    found = drawn.at(batch.row, sources, places, np.ones(written.shape, dtype=bool))
    return torch.from_numpy(found).to(written.device)


def _unfold(writer: _Writer, batch: SequenceBatch, task: Trees, reading: PositionReading) -> Tensor:
    """Write symbols at the nodes that earlier symbols open. -> int64 [B, M]

    The result has the symbol that was written at the node of each label, and PAD if none was written there.
    """
    assert batch.label_positions is not None
    expected, labels = batch.label_positions.cpu().numpy(), batch.labels
    budget, sources = (mask.sum(1).cpu().numpy() for mask in (batch.label_mask, batch.source_mask))
    growth = _Growth(task, batch, expected.shape[1])
    nodes, symbols = np.zeros_like(expected), np.full_like(expected, PAD)
    written = labels.new_full((len(labels), 1), SOS)
    for m in range(expected.shape[1]):
        if reading.is_line:
            positions = _positions(written, batch, reading)
        else:
            before = nodes[:, : m + 1]
            positions = torch.from_numpy(reading.input_positions_of(before, before > 0, sources)).to(labels.device)
        chosen = writer.next(written, positions).cpu().numpy()
        node = np.where(m < budget, growth.next(), 0)
        nodes[:, m], symbols[:, m] = node, np.where(node > 0, chosen, PAD)
        growth.write(node, symbols[:, m])
        written = torch.cat([written, torch.from_numpy(symbols[:, m : m + 1]).to(labels.device)], dim=1)
        if not node.any():
            break
    same = (expected[:, :, None] == nodes[:, None, :]) & (expected > 0)[:, :, None]  # [B, label, written]
    answer = np.where(same.any(-1), np.take_along_axis(symbols, same.argmax(-1), axis=1), PAD)
    return torch.from_numpy(answer).to(labels.device)


class _Growth:
    """The open nodes of each row's tree: a queue for breadth, a stack for depth. The root is open at first.

    Arguments: `task`, which says what a symbol opens; `batch`; `maximum`, of symbols that are written.
    """

    def __init__(self, task: Trees, batch: SequenceBatch, maximum: int) -> None:
        self.task, self.first_in_first_out = task, task.order == "breadth"
        rows, source = len(batch.labels), batch.source_ids.cpu().numpy()
        pointer = source[:, 1] if source.shape[1] > 1 else np.full(rows, PAD)  # the index leaf, for tree-ops
        self.closing = task.closing(batch.op, pointer)
        self.open = np.zeros((rows, 1 + maximum * task.branching), dtype=np.int64)
        self.open[:, 0] = 1  # the root
        self.head, self.tail = np.zeros(rows, dtype=np.int64), np.ones(rows, dtype=np.int64)

    def next(self) -> I64:
        """The node of the next symbol, or 0 if no node is open. -> int64 [B]"""
        index = self.head if self.first_in_first_out else self.tail - 1
        node = np.take_along_axis(self.open, np.maximum(index, 0)[:, None], axis=1)[:, 0]
        return np.where(self.head < self.tail, node, 0)

    def write(self, node: I64, symbol: I64) -> None:
        """Close the nodes that `next` returned, and open those that follow from their symbols. int64 [B], int64 [B]"""
        done = node > 0
        if self.first_in_first_out:
            self.head += done
        else:
            self.tail -= done
        children = self.task.opens(node, symbol, self.closing)
        for child in children.T if self.first_in_first_out else children.T[::-1]:
            rows = np.flatnonzero(child)
            self.open[rows, self.tail[rows]] = child[rows]
            self.tail[rows] += 1
