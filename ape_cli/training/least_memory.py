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
from ape_cli.data.loader import ImageSplit, Split
from ape_cli.models.checkpoint import Progress
from ape_cli.models.transformer import Model
from ape_cli.runs.config import Config

Shape = tuple[int, int, int]  # B, N, M


def check_memory(
    model: Model, config: Config, train: Split | ImageSplit, progress: Progress, device: torch.device, ranks: int
) -> None:
    """Check that the next batches can fit into memory. Raises `UsageError` if one of them cannot."""
    dtype = torch.bfloat16 if config.precision == "bf16" else torch.float32
    shapes = _largest(_next_shapes(config, train, progress, ranks))
    need, shape = max((least_bytes(model, shape, device, dtype), shape) for shape in shapes)
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


def _next_shapes(config: Config, train: Split | ImageSplit, progress: Progress, ranks: int) -> set[Shape]:
    """The shapes of the next batches, without padding and without EOS. Images have no tokens of their own."""
    if not isinstance(train, Split):
        return {(max(1, min(config.batch_size, train.rows) // ranks), 0, 0)}
    left = max(1, progress.schedule.steps - progress.step)
    batches = train.first_batches(config.batch_size, config.seed, epoch=progress.epoch, skip=progress.batch)
    in_window = list(itertools.islice(batches, left))  # they share a window
    source, target = (side.length for side in (in_window[0][0].source, in_window[0][0].target))
    target = source if train.manifest.plan.tagged else target
    return {(max(1, rows.size // ranks), int(source[rows].max()), int(target[rows].max())) for _, rows in in_window}


def _largest(shapes: set[Shape]) -> list[Shape]:
    """The shapes without those that another one exceeds in rows, source and target."""
    largest: list[Shape] = []
    for shape in sorted(shapes, reverse=True):
        if not any(all(a <= b for a, b in zip(shape, other, strict=True)) for other in largest):
            largest.append(shape)
    return largest


def least_bytes(model: Model, shape: Shape, device: torch.device, dtype: torch.dtype) -> int:
    """At least how many bytes a training step on a batch of this shape needs. `dtype` is that of queries and keys."""
    rows, source, target = shape
    scheme, kept, largest_temporary = model.scheme, 0, 0
    width, number = scheme.shape.d_model, torch.empty((), device=device, dtype=dtype)
    for layer, queries, keys, causal in list(model.attentions(source, target)):
        q, k = (number.expand(rows, layer.heads, count, width // layer.heads) for count in (queries, keys))
        stored, temporary = layer.attention_type.least_numbers(scheme, q, k, causal=causal, dropout=layer.dropout)
        kept += stored + 2 * rows * (queries + keys) * width
        largest_temporary = max(largest_temporary, temporary)
    return (kept + largest_temporary) * number.element_size()
