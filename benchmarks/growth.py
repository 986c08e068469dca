"""How the cost per token of every scheme grows with the length of sequences and the depth of trees. Writes a plot.

The bar is on the growth from the second largest size to the largest, compared with that of `none` in the same run. A
scheme may cost a constant multiple of `none`, but the multiple must not grow. The growth over the whole range is given
too. It has no bar, because biases of M N numbers fit into the caches at the smallest size, and are computed in blocks
from 1,024 places on.

The measurement is forward and backward of a narrow model (one layer each way, d=32, 2 heads) on one thread, without
the locality bias. The model reads a sequence of L places, or 128 trees. Each tree is one long path with a leaf at each
step (2 depth + 1 nodes).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch

from ape_cli import position
from ape_cli.models.device import tune
from ape_cli.models.transformer import Transformer
from ape_cli.structure import Tree
from benchmarks._measure import Row

SUMMARY = "growth of the time per token with length and depth, divided by that of `none`"
LENGTHS = (128, 512, 2048, 8192)
DEPTHS = (5, 10, 20, 40)
ROWS = {"length": 1, "depth": 128}
BAR = 1.5  # maximum growth, relative to that of `none`
PLOT = Path(__file__).parent / "results" / "growth.svg"


def measure() -> Iterator[Row]:
    """The growth of every scheme, by length and by depth. Writes the plot at the end."""
    tune()
    torch.set_num_threads(1)
    measured: dict[str, dict[str, list[float]]] = {"length": {}, "depth": {}}
    sizes = {"length": LENGTHS, "depth": DEPTHS}
    for axis, values in sizes.items():
        names = [n for n in position.names() if reads(n, axis)]
        for name in ["none", *(n for n in names if n != "none")]:
            measured[axis][name] = [seconds_per_token(name, axis, size) for size in values]
            if name == "none":
                continue
            yield from rows(name, axis, values, measured[axis][name], measured[axis]["none"])
    plot(measured, sizes)


def rows(name: str, axis: str, sizes: Sequence[int], ours: list[float], plain: list[float]) -> Iterator[Row]:
    """The growth of a scheme over the last step and over the whole range, relative to that of `none`."""
    for begin, bar in ((-2, BAR), (0, None)):
        growth = ours[-1] / ours[begin] / (plain[-1] / plain[begin])
        what = f"{name}: {axis} {sizes[begin]} to {sizes[-1]}"
        absolute: dict[str, float] = {}
        for size, seconds, beside in zip(sizes, ours, plain, strict=True):
            absolute |= {f"{name} at {size}, us/token": 1e6 * seconds, f"none at {size}, us/token": 1e6 * beside}
        yield Row(what, growth, bar, absolute=absolute if bar is None else {})


def reads(name: str, axis: str) -> bool:
    """Whether a scheme reads sequences (`length`) or trees (`depth`), and acts in an encoder-decoder."""
    patterns = position.load(name).structures
    return (
        not position.load(name).causal_only and ("seq" if axis == "length" else "tree(k)") in patterns
    ) or patterns == ("any",)


def seconds_per_token(name: str, axis: str, size: int) -> float:
    """The median of several steps, after one warm-up step."""
    generator = torch.Generator().manual_seed(1)
    if axis == "length":
        expression, at = "seq", torch.arange(1, size + 1)[None]
    else:
        expression, at = "tree(2)" if name != "none" else "seq", caterpillar(size)[None]
    scheme = position.make(
        name, 128 if name == "tree" else 32, 2, structure=expression, max_size=size, decay=1.0, generator=generator
    )
    model = Transformer(scheme, ids=16, d_ff=64, encoder_layers=1, decoder_layers=1, dropout=0.0, generator=generator)
    rows = ROWS[axis]
    ids = torch.randint(3, 16, (rows, at.shape[1]), generator=generator)
    mask = torch.ones_like(ids, dtype=torch.bool)
    if axis == "depth":
        at = at.expand(rows, -1).contiguous()
    took = []
    for _ in range(9 if at.shape[1] < 2048 else 4):
        start = time.perf_counter()
        model.zero_grad()
        model(ids, at, mask, ids, at).logsumexp(-1).mean().backward()
        took.append(time.perf_counter() - start)
    return statistics.median(took[1:]) / ids.numel()


def caterpillar(depth: int) -> torch.Tensor:
    """The tree that is one path to the right, with a leaf on the left at each step.

    -> heap indices in level order, int64 [2 * depth + 1]
    """
    tree, heap = Tree(2), [1]
    spine = 1
    for _ in range(depth):
        heap += [2 * spine, 2 * spine + 1]
        spine = 2 * spine + 1
    assert tree.level(heap[-1]) == depth
    return torch.tensor(heap)


def plot(measured: dict[str, dict[str, list[float]]], sizes: Mapping[str, Sequence[int]]) -> None:
    """Write the plot: one panel for lengths and one for depths, with logarithmic axes."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "ape"
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, len(sizes), figsize=(11, 5))
    for panel, (axis, values) in zip(panels, sizes.items(), strict=True):
        for name, seconds in measured[axis].items():
            style = {"color": "black", "linewidth": 2.5} if name == "none" else {}
            panel.plot(values, [1e6 * s for s in seconds], marker="o", markersize=3, label=name, **style)
        panel.set(xscale="log", yscale="log", xlabel=axis, ylabel="µs a token, forward and backward")
        panel.set_xticks(values, [str(v) for v in values])
        panel.minorticks_off()
        panel.legend(fontsize=7)
    figure.tight_layout()
    PLOT.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PLOT, metadata={"Date": None})
