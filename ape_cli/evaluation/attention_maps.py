"""The attention weights of a run on one row of a dataset, in each layer and head.

The decoder reads the true target (teacher forcing). In a decoder-only model it reads the source before it. Padding is
left out. The tokens of an image are named by their row and column, from 1.

Shapes: B rows, L layers, H heads, M queries, N keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ape_cli.attention import Attention
from ape_cli.core.errors import UsageError, pick
from ape_cli.core.vocabulary import PAD, SOS, shown
from ape_cli.data.batches import Batch, DecoderOnlyBatch, SequenceBatch
from ape_cli.data.loader import Dataset
from ape_cli.evaluation.evaluate import check_fits
from ape_cli.experiment import Experiment
from ape_cli.experiment.reading import tokenising
from ape_cli.models.checkpoint import load_weights
from ape_cli.models.device import tune
from ape_cli.models.factory import of_experiment
from ape_cli.models.transformer import Model
from ape_cli.runs.config import ImageConfig
from ape_cli.runs.run import Run

PARTS = {  # the modules of each attention of the model, by the stack and the name of the module in a layer
    "encoder": ("encoder", "self_attention"),
    "decoder": ("decoder", "self_attention"),
    "cross": ("decoder", "cross_attention"),
}


@dataclass(frozen=True)
class AttentionMaps:
    """The attention weights of one row, with the names of the tokens that ask and of those that are looked at."""

    weights: NDArray[np.float64]  # [L, H, M, N]; for most kinds of attention, rows sum to 1
    queries: list[str]
    keys: list[str]
    part: str  # one of `PARTS`


@torch.no_grad()
def attention_maps(run: Run, data: Dataset, split: str, row: int, part: str | None) -> AttentionMaps:
    """The attention weights of a run's best weights on one row. `part`: one of `PARTS`, None for the first there is.

    Raises `UsageError` if the run is not finished, or if there is no such part, split, row or layer; `DataError` if
    the data does not fit the run; and `RunError` if the run has no usable weights.
    """
    rows = data.split(split)
    config = check_fits(run, data, rows).config
    experiment = Experiment(config, data)
    if not 0 <= row < rows.rows:
        raise UsageError("no such row", got=row, allowed=f"{rows.rows} rows in {split}, from 0", fix="choose another")
    tune()
    model = of_experiment(experiment).eval()
    modules = {
        part: [getattr(layer, name) for layer in getattr(model, stack, ()) if hasattr(layer, name)]
        for part, (stack, name) in PARTS.items()
    }
    there = [part for part, of_part in modules.items() if of_part]
    part = pick("attention of the model", part or there[0], there)
    load_weights(run, model)
    batch = next(rows[row : row + 1].batches(1, options=experiment.batch_options()))
    if isinstance(config, ImageConfig):
        assert data.image is not None
        height, width = tokenising(config).grid(*data.image[:2])
        queries = keys = [f"{i},{j}" for i in range(1, height + 1) for j in range(1, width + 1)]
    else:
        queries, keys = _tokens(batch, data.manifest.vocabulary, part)
        keys = keys[-1:] if part == "cross" and getattr(config, "memory", "all") == "last" else keys
    return AttentionMaps(_weights(model, batch, modules[part])[:, :, : len(queries), : len(keys)], queries, keys, part)


def _tokens(batch: Batch, vocabulary: list[str], part: str) -> tuple[list[str], list[str]]:
    """The names of the queries and of the keys of a batch of one row, without padding."""
    assert isinstance(batch, SequenceBatch)
    target = batch.input_ids[0].tolist()
    # without SOS, the decoder reads the source and gives tags
    target = target[: int(batch.label_mask[0].sum())] if target[0] == SOS else [i for i in target if i != PAD]
    before = batch.source_ids[0][batch.source_mask[0]].tolist()
    if isinstance(batch, DecoderOnlyBatch):
        target = [*before, *target]
    source, read = ([shown(vocabulary[i].strip("<>")) for i in ids] for ids in (before, target))
    return {"encoder": (source, source), "decoder": (read, read), "cross": (read, source)}[part]


def _weights(model: Model, batch: Batch, modules: list[nn.Module]) -> NDArray[np.float64]:
    """The weights of each of the given attentions on a batch of one row. -> float64 [L, H, M, N], with padding"""
    recorded: list[Tensor] = []

    def record(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        """Compute the weights before the module's own forward pass."""
        assert isinstance(module, Attention)
        recorded.append(module.weights(*inputs)[0].double())

    hooks = [module.register_forward_pre_hook(record) for module in modules]
    model(*batch.inputs)
    for hook in hooks:
        hook.remove()
    return torch.stack(recorded).numpy()
