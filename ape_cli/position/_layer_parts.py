"""Short causal convolutions and low-rank projections, for the modules of layers (`Scheme.layer`).

Shapes: B batch, N tokens, S size of the convolution in tokens, C channels.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ape_cli.core.errors import UsageError

_RANK = 32  # the usual rank, that of the releases of `path` and `selective-rope`


class ShortConvolution(nn.Module):
    """A causal depthwise convolution: each channel is a weighted sum over a token and the S - 1 tokens before it.

    There is no bias. The weights are initialised uniformly between -1/√S and 1/√S, as in a depthwise `nn.Conv1d`.

    Arguments: `channels`; `size`, S.

    >>> convolution = ShortConvolution(channels=1, size=2)
    >>> _ = convolution.load_state_dict({"weight": torch.tensor([[10.0, 1.0]])})
    >>> convolution(torch.tensor([[[0.0], [1.0], [2.0], [3.0]]]))[0, :, 0].tolist()
    [1.0, 12.0, 23.0]
    """

    def __init__(self, channels: int, size: int) -> None:
        """Draw the weights."""
        super().__init__()
        self.weight = nn.Parameter(torch.empty(channels, size))  # the last one is that of the token itself
        nn.init.uniform_(self.weight, -(size**-0.5), size**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        """Convolve N tokens, given with the S - 1 tokens before them. [B, S - 1 + N, C] -> [B, N, C]"""
        size = self.weight.shape[1]
        count = x.shape[1] - (size - 1)
        terms = [x[:, at : at + count] * weight.to(x.dtype) for at, weight in enumerate(self.weight.unbind(1))]
        return torch.stack(terms).sum(0)


def low_rank(inputs: int, rank: int, outputs: int) -> nn.Sequential:
    """A linear projection of low rank, without biases. [..., inputs] -> [..., outputs]"""
    return nn.Sequential(nn.Linear(inputs, rank, bias=False), nn.Linear(rank, outputs, bias=False))


def chosen_rank(rank: int, d_model: int) -> int:
    """The rank that the option `rank` selects. 0 selects 32, or the width of a narrower model.

    Raises `UsageError` if it is negative or above the width.

    >>> chosen_rank(0, 512), chosen_rank(0, 16), chosen_rank(64, 512)
    (32, 16, 64)
    """
    if not 0 <= rank <= d_model:
        allowed = f"1 to {d_model}, the width of the model; 0 for the usual rank"
        raise UsageError("bad rank", got=rank, allowed=allowed, fix=f"the source's release uses {_RANK}")
    return rank or min(_RANK, d_model)


def check_size(size: int, usual: int) -> None:
    """Check the option `convolution`. `usual`: the size in the source. Raises `UsageError` if it is negative."""
    if size < 0:
        allowed, fix = "1 or more tokens; 0 for none", f"the source's release uses {usual}"
        raise UsageError("bad convolution", got=size, allowed=allowed, fix=fix)
