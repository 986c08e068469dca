"""The compact convolutional transformer: images -> tokens -> the shared layers -> one vector -> a class.

Source: the preprint (arXiv:2312.16045v1), section 4.1 and appendix B, table 5; Hassani et al. 2021, arXiv:2104.05704.
The model has a tokenising convolution with ReLU and max pooling, whose result is read row by row as tokens; an
encoder; sequence pooling (the tokens are averaged with the softmax of one learned score for each); and a linear
classifier.
Deviations: the layers are the plain pre-norm layers of the encoder-decoder transformer, with GELU and a final norm.
The source also normalises the residual stream itself. As in the source, stochastic depth grows linearly from none in
the first layer to its rate in the last, and convolution and pooling are padded by half of their size, rounded down.

Shapes: B images, H x W pixels, C channels, h x w = N tokens, D channels of the model, V classes, C' coordinates of a
position.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from ape_cli.attention import AttentionContext, AttentionType
from ape_cli.attention._layers import Dropout
from ape_cli.experiment.reading import Tokenising
from ape_cli.models.transformer import Layer, Model, initialise
from ape_cli.position import Scheme


class Tokeniser(nn.Module):
    """The convolution, with ReLU and max pooling, that turns images into tokens.

    Arguments: `channels`, of the images; `d_model`, channels of a token; `how`, sizes and strides.
    """

    def __init__(self, channels: int, d_model: int, how: Tokenising) -> None:
        """Create the convolution."""
        super().__init__()
        size, stride, self.how = how.convolution_size, how.convolution_stride, how
        self.convolution = nn.Conv2d(channels, d_model, size, stride, padding=size // 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Images to tokens, row by row. Floating point [B, C, H, W] -> [B, N, D]"""
        x, size = functional.relu(self.convolution(x)), self.how.pool_size
        if (size, self.how.pool_stride) != (1, 1):
            x = functional.max_pool2d(x, size, self.how.pool_stride, padding=size // 2)
        return x.flatten(2).transpose(1, 2)


class Classifier(Model):
    """A transformer encoder that reads images and scores their classes.

    Arguments:
    - `scheme`: the positional encoding; `attention_type`, None for the default;
    - `image`: height, width and channels; `classes`: the number of classes;
    - `positions`: int64 [1, N] or [1, N, C'], the positions of the tokens, as the scheme reads them;
    - `moments`: mean and standard deviation of each channel of the training images, as fractions of 255. They are
      stored with the weights, so that all other images are brought to the scale of the training images;
    - `tokenising`: sizes and strides; `d_ff`: inner channels of the feed-forward; `layers`: of the encoder;
    - `dropout`, `attention_dropout`, `stochastic_depth`: probabilities. The last one is that of the last layer;
    - `generator`: of the random weights.

    Raises `UsageError` if the kind of attention cannot take the scheme.
    """

    sizes_vary = False  # only the number of rows does

    def __init__(
        self,
        scheme: Scheme,
        *,
        image: tuple[int, int, int],
        positions: Tensor,
        classes: int,
        moments: tuple[list[float], list[float]],
        tokenising: Tokenising,
        d_ff: int,
        layers: int,
        dropout: float,
        attention_dropout: float,
        stochastic_depth: float,
        attention_type: AttentionType | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        """Create the layers and draw their weights."""
        super().__init__(scheme, attention_type)
        d = scheme.shape.d_model
        self.tokeniser = Tokeniser(image[2], d, tokenising)
        self.dropout = Dropout(dropout)
        self.encoder = nn.ModuleList(
            Layer(
                scheme,
                self.attention_type,
                d_ff=d_ff,
                dropout=dropout,
                activation=functional.gelu,
                attention_dropout=attention_dropout,
                skip=stochastic_depth if layers == 1 else stochastic_depth * i / (layers - 1),
                index=i,
            )
            for i in range(layers)
        )
        self.norm, self.pool, self.head = nn.LayerNorm(d), nn.Linear(d, 1), nn.Linear(d, classes)
        self.positions = self._there = positions  # not a buffer, as those are lost on the meta device if not stored
        self.mean, self.std = (nn.Buffer(torch.tensor(values)) for values in moments)
        nn.init.kaiming_normal_(self.tokeniser.convolution.weight, nonlinearity="relu", generator=generator)
        for part in (self.encoder, self.pool, self.head):
            initialise(part, generator)

    def tokens(self, pixels: Tensor) -> Tensor:
        """The tokens of images, before positions are added. uint8 [B, H, W, C] -> [B, N, D]"""
        x = (pixels.to(self.mean.dtype) / 255 - self.mean) / self.std
        return self.tokeniser(x.permute(0, 3, 1, 2))

    def read(self, tokens: Tensor) -> Tensor:
        """One vector for each image, from its tokens at the model's own positions. [B, N, D] -> [B, D]"""
        if self._there.device != tokens.device:
            self._there = self.positions.to(tokens.device)
        context = self.scheme.context(self._there)
        x = self.dropout(self.scheme.embed(tokens, context))
        every = AttentionContext.of(self.scheme, context, context)
        for layer in self.encoder:
            x = layer(x, self.scheme, every)
        x = self.norm(x)
        weights = torch.softmax(self.pool(x), dim=1)  # [B, N, 1]
        return (weights.mT @ x).squeeze(1)

    def forward(self, pixels: Tensor) -> Tensor:
        """The scores of the classes. uint8 [B, H, W, C] -> [B, 1, V]"""
        return self.head(self.read(self.tokens(pixels)))[:, None]
