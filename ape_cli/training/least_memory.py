"""At least how much memory a training step needs, compared with what there is, before a run starts.

The estimate is a lower bound for the next batches, so a run that fits is never refused. It counts what a step keeps of
each layer for its backward pass, as float32, or as bfloat16 with `precision=bf16`:

- queries, keys, values and results of each attention;
- scores and weights of pairs of tokens, as far as the kind of attention has them in memory
  (`AttentionType.least_numbers`).

Weights, the optimiser, feed-forward networks, dropout and everything else are not counted.

Shapes: B rows of a batch on one rank, N source tokens, M target tokens.
"""

from __future__ import annotations

import itertools

import torch

from ape_cli.core.errors import UsageError
from ape_cli.core.memory import most_memory
from ape_cli.core.rng import I64
from ape_cli.data.collation import Window
from ape_cli.data.loader import Split
from ape_cli.models.checkpoint import TrainState
from ape_cli.models.transformer import Model
from ape_cli.training.setup import Setup

Shape = tuple[int, int, int]  # B, N, M


def check_memory(setup: Setup, at: TrainState) -> None:
    """Check that the next batches can fit into memory. Raises `UsageError` if one of them cannot."""
    device, config = setup.execution.device, setup.config
    dtype = torch.bfloat16 if config.precision == "bf16" else torch.float32
    need, shape = max((least_bytes(setup.model, shape, device, dtype), shape) for shape in _next_shapes(setup, at))
    on_gpu = device.type == "cuda"
    there = torch.cuda.get_device_properties(device).total_memory if on_gpu else most_memory()
    if need <= there:
        return
    rows, source, target = shape
    tokens = f" of {source:,} source and {target:,} target tokens" if source else ""
    raise UsageError(
        f"a training step needs more memory than {'the GPU' if on_gpu else 'this machine'} has",
        got=f"{need / 2**30:,.1f} GiB or more for a batch of {rows:,} row{'s' * (rows > 1)}{tokens}",
        allowed=f"{there / 2**30:,.1f} GiB",
        fix="choose a smaller `batch_size`, shorter rows, fewer heads or layers, or attention that is linear in tokens",
    )


def _next_shapes(setup: Setup, at: TrainState) -> set[Shape]:
    """The shapes of the next batches, without padding and without EOS. Images have no tokens of their own."""
    train, size = setup.train, setup.config.batch_size
    _, ranks = setup.execution.group.share
    if not isinstance(train, Split):
        return {(max(1, min(size, train.rows) // ranks), 0, 0)}
    tagged = train.manifest.plan.tagged
    batches = train.first_batches(size, setup.config.seed, epoch=at.epoch, skip=at.batch)

    def shape(window: Window, rows: I64) -> Shape:
        source, target = window.source.length_of(rows), window.target.length_of(rows)
        return max(1, rows.size // ranks), int(source.max()), int((source if tagged else target).max())

    return {shape(*batch) for batch in itertools.islice(batches, max(1, at.schedule.steps - at.step))}


def least_bytes(model: Model, shape: Shape, device: torch.device, dtype: torch.dtype) -> int:
    """At least how many bytes a training step on a batch of this shape needs. `dtype` is that of queries and keys."""
    rows, source, target = shape
    scheme, kept, beside = model.scheme, 0, 0
    width, number = scheme.shape.d_model, torch.empty((), device=device, dtype=dtype)
    for layer, queries, keys, causal in model.attentions(source, target):
        q, k = (number.expand(rows, layer.heads, count, width // layer.heads) for count in (queries, keys))
        each, once = layer.attention_type.least_numbers(scheme, q, k, causal=causal, dropout=layer.dropout)
        kept, beside = kept + each + 2 * rows * (queries + keys) * width, max(beside, once)
    return (kept + beside) * number.element_size()
