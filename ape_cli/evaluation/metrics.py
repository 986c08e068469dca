"""Teacher-forced scores, kept for each row, so that every average of them is a ratio of two sums.

Shapes: B rows, Q labels, V ids. Units: token accuracy is a fraction of the target tokens (without padding),
cross-entropy is in nats for each token.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from ape_cli.data.batches import Batch
from ape_cli.models.device import products
from ape_cli.models.transformer import Model, forward, to_device


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
