"""Short causal convolutions, for the modules of layers (`Scheme.layer`).

Shapes: B batch, N tokens, S size of the convolution in tokens, C channels.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ape_cli.core.errors import UsageError


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


def check_size(size: int, usual: int) -> None:
    """Check the option `convolution`. `usual`: the size in the source. Raises `UsageError` if it is negative."""
    if size < 0:
        allowed, fix = "1 or more tokens; 0 for none", f"the source's release uses {usual}"
        raise UsageError("bad convolution", got=size, allowed=allowed, fix=fix)
