"""The forward pass under teacher forcing, and its loss. Training, validation and evaluation share them.

Shapes: B rows, M target tokens, V ids.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from ape_cli.core.vocabulary import PAD
from ape_cli.data.batches import Batch
from ape_cli.models.precision import forward_pass
from ape_cli.models.transformer import Model
from ape_cli.position import explained, planner


def forward(model: Model, batch: Batch, precision: str, parallel: nn.Module | None = None) -> Tensor:
    """The teacher-forced scores of a batch. -> [B, M, V]

    `parallel`: the module that wraps the model for a process group and is called in its place.
    Raises `ApeError` for an exception in a scheme that is not part of ape.
    """
    module = model if parallel is None else parallel
    with explained(), forward_pass(precision, batch.labels.device, model.scheme.shape.d_model):
        return module(*batch.inputs)


def to_device(batch: Batch, model: Model, device: torch.device) -> Batch:
    """A batch on the device of its model. For a GPU it has the plans that are computed on the host."""
    return (batch.planned(planner(model.scheme)) if device.type == "cuda" else batch).to(device)


def loss(scores: Tensor, labels: Tensor, ignore_index: int = PAD, smoothing: float = 0.0) -> Tensor:
    """The cross-entropy in nats, summed over the labels that are not `ignore_index`. [B, M, V], int64 [B, M] -> scalar

    `smoothing`: the share of a label's probability that is spread evenly over all ids (Szegedy et al. 2016,
    arXiv:1512.00567).
    """
    flat = scores.flatten(0, 1).float()
    return functional.cross_entropy(
        flat, labels.flatten(), ignore_index=ignore_index, reduction="sum", label_smoothing=smoothing
    )
