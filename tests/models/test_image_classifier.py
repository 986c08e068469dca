"""The compact convolutional transformer, compared with a second implementation, its laws and the numbers of table 5."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from ape_cli import attention, position
from ape_cli.core.errors import UsageError
from ape_cli.experiment import ExperimentSpec
from ape_cli.models import transformer
from ape_cli.models.image_classifier import Classifier, Tokenising
from ape_cli.models.transformer import loss

TABLE_5 = Tokenising(3, 1, 3, 2)
PIXELS = Tokenising(1, 1, 1, 1)  # each pixel is a token
MOMENTS = ([0.4, 0.5, 0.3], [0.2, 0.3, 0.25])


def net(name: str, how: Tokenising = PIXELS, image: tuple[int, int, int] = (4, 5, 3), **options: Any) -> Classifier:
    """A small model in evaluation mode, with its positions row by row, from 1."""
    rows, columns = how.grid(*image[:2])
    reads_grid = name == "orthogonal" or "grid(n)" in position.load(name).structures[:1]
    line = range(rows * columns)
    places = [(i // columns + 1, i % columns + 1) if reads_grid else i + 1 for i in line]
    generator = torch.Generator().manual_seed(7)
    scheme = position.make(
        *(name, 16, 2),
        structure="grid(2)" if reads_grid else "seq",
        max_size=rows * columns,
        generator=generator,
        **{k: options.pop(k) for k in ("decay",) if k in options},
    )
    settings = {"d_ff": 24, "layers": 2, "dropout": 0.0, "attention_dropout": 0.0, "stochastic_depth": 0.0} | options
    made = Classifier(
        scheme,
        image=image,
        positions=torch.tensor([places], device="cpu"),  # also within torch.device("meta")
        classes=5,
        moments=MOMENTS,
        tokenising=how,
        generator=generator,
        **settings,
    )
    return made.eval()


def images(count: int = 3, image: tuple[int, int, int] = (4, 5, 3)) -> Tensor:
    return torch.randint(0, 256, (count, *image), dtype=torch.uint8, generator=torch.Generator().manual_seed(2))


# A second implementation


def windows(x: Tensor, size: int, stride: int) -> list[list[Tensor]]:
    """The windows [size, size, C] around every `stride`-th place of a grid [H, W, C], with zeros around the grid."""
    half = size // 2
    padded = functional.pad(x, (0, 0, half, half, half, half))
    return [
        [padded[i : i + size, j : j + size] for j in range(0, x.shape[1], stride)] for i in range(0, len(x), stride)
    ]


def convolved(made: Classifier, pixels: Tensor, how: Tokenising) -> list[list[Tensor]]:
    """The tokens of one image [H, W, C], computed window by window: a grid of vectors with D channels."""
    weight = made.tokeniser.convolution.weight.double().movedim(1, -1)  # [D, k, k, C]
    mean, std = (torch.tensor(m, dtype=torch.float64) for m in MOMENTS)
    lines = windows((pixels.double() / 255 - mean) / std, how.convolution_size, how.convolution_stride)
    found = torch.stack([torch.stack([(weight * one).sum((1, 2, 3)) for one in line]) for line in lines]).clamp(min=0)
    return [[one.amax((0, 1)) for one in line] for line in windows(found, how.pool_size, how.pool_stride)]


def normed(x: Tensor, norm: torch.nn.LayerNorm) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / (variance + norm.eps).sqrt() * norm.weight + norm.bias


def written_again(made: Classifier, pixels: Tensor, how: Tokenising) -> Tensor:
    """The scores of one image, computed without shortcuts."""
    grid = convolved(made, pixels, how)
    x = torch.stack([token for line in grid for token in line])  # row by row
    scheme = made.scheme
    two = scheme.structure.width == 2
    at = [[i + 1, j + 1] if two else i * len(grid[0]) + j + 1 for i in range(len(grid)) for j in range(len(grid[0]))]
    context = scheme.context(torch.tensor([at]))
    x = scheme.embed(x[None], context)[0]
    heads, k = scheme.shape.heads, scheme.shape.head_dim
    for layer in made.encoder:
        y = normed(x, layer.self_norm)
        q, key, v = (
            f(y).view(-1, heads, k).transpose(0, 1)
            for f in (layer.self_attention.query, layer.self_attention.key, layer.self_attention.value)
        )
        weights = attention.logits(scheme, q[None], key[None], context, context)[0].softmax(-1)
        x = x + layer.self_attention.out((weights @ v).transpose(0, 1).flatten(1))
        inner = layer.ff.inner(normed(x, layer.ff_norm))
        x = x + layer.ff.outer(inner * 0.5 * (1 + torch.erf(inner / math.sqrt(2))))  # GELU
    x = normed(x, made.norm)
    scores = [float(made.pool(token)) for token in x]
    most = max(scores)
    weight = [math.exp(s - most) for s in scores]
    vector = sum(w / sum(weight) * token for w, token in zip(weight, x, strict=True))
    return made.head(vector)


@pytest.mark.parametrize("how", [PIXELS, TABLE_5, Tokenising(3, 2, 1, 1), Tokenising(5, 1, 3, 2)], ids=str)
@pytest.mark.parametrize("name", ["none", "sinusoidal", "orthogonal-seq", "orthogonal-grid"])
def test_against_one_written_again(name: str, how: Tokenising) -> None:
    made = net(name, how).double()
    made.mean, made.std = (torch.nn.Buffer(torch.tensor(m, dtype=torch.float64)) for m in MOMENTS)
    with torch.no_grad():
        ours = made(images())
        theirs = torch.stack([written_again(made, one, how) for one in images()])
    assert ours.shape == (3, 1, 5)
    torch.testing.assert_close(ours[:, 0], theirs, rtol=0, atol=1e-9)


# Laws


@pytest.mark.parametrize("name", ["none", "learned", "orthogonal-grid", "t5"])
def test_every_parameter_learns(name: str) -> None:
    made = net(name, TABLE_5, (8, 8, 3)).train()
    loss(made(images(6, (8, 8, 3))), torch.arange(6)[:, None] % 5, -1).backward()
    for parameter, value in made.named_parameters():
        if parameter == "pool.bias" or (parameter.startswith("scheme.") and name == "t5"):
            continue  # constants over all tokens, which do not change a softmax; scalars of distant buckets
        assert value.grad is not None, parameter
        assert value.grad.abs().sum() > 0, parameter


def test_stochastic_depth() -> None:
    ones = torch.ones(20_000, 2, 3)
    torch.manual_seed(3)
    found = transformer.stochastic_depth(ones, 0.2)
    assert set(found.unique().tolist()) == {0.0, 1.25}  # zero, or scaled so that the mean stays the same
    assert torch.equal(found, found[:, :1, :1].expand_as(found))  # a row is dropped as a whole or not at all
    assert abs(float((found[:, 0, 0] == 0).double().mean()) - 0.2) < 5 * math.sqrt(0.2 * 0.8 / 20_000)
    assert torch.equal(transformer.stochastic_depth(ones, 0.0), ones)


@pytest.mark.parametrize(("layers", "rates"), [(3, [0.0, 0.25, 0.5]), (1, [0.5])])
def test_stochastic_depth_grows_to_that_of_the_last_layer(layers: int, rates: list[float]) -> None:
    assert [layer.skip for layer in net("none", layers=layers, stochastic_depth=0.5).encoder] == rates


# Numbers


@pytest.mark.parametrize(
    ("how", "size", "message"),
    [
        (Tokenising(2, 1, 3, 2), 8, "bad convolution_size"),
        (Tokenising(3, 1, 4, 2), 8, "bad pool_size"),
        (TABLE_5, 2, "single token"),
        (Tokenising(3, 8, 1, 1), 8, "single token"),
    ],
)
def test_even_sizes_and_a_single_token_are_refused(how: Tokenising, size: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        how.grid(size, size)


def test_the_paper_s_table_5() -> None:
    ours = ExperimentSpec(preset="paper", scheme="none").config("image").model_dump()
    assert (ours["convolution_size"], ours["convolution_stride"]) == (3, 1)
    assert (ours["d_model"], ours["d_ff"], ours["encoder_layers"], ours["heads"]) == (256, 512, 7, 4)
    assert (ours["attention_dropout"], ours["stochastic_depth"], ours["weight_decay"]) == (0.1, 0.1, 0.03)
    assert (ours["epochs"], ours["batch_size"], ours["label_smoothing"]) == (300, 128, 0.1)
    assert (ours["lr_initial"], ours["lr_peak"], ours["lr_final"], ours["warmup"]) == (1e-7, 5e-4, 1e-9, 0.05)


def test_parameters_of_the_paper_s_size() -> None:
    scheme = position.make("none", 256, 4)
    made = Classifier(
        scheme,
        image=(32, 32, 3),
        positions=torch.arange(1, 257)[None],
        classes=10,
        moments=MOMENTS,
        tokenising=TABLE_5,
        d_ff=512,
        layers=7,
        dropout=0.0,
        attention_dropout=0.1,
        stochastic_depth=0.1,
    )
    layer = 4 * (256 * 256 + 256) + (256 * 512 + 512) + (512 * 256 + 256) + 2 * 2 * 256
    assert sum(p.numel() for p in made.parameters()) == 27 * 256 + 7 * layer + 512 + 257 + 2570


def test_weights_start_as_documented() -> None:
    """Convolutions have the deviation sqrt(2 / inputs) of Kaiming's normal distribution, for ReLU."""
    made = net("none", TABLE_5)
    assert float(made.tokeniser.convolution.weight.detach().std()) == pytest.approx((2 / 27) ** 0.5, rel=0.1)
    for layer in (made.pool, made.head, *(layer.ff.inner for layer in made.encoder)):
        end = (6 / (layer.in_features + layer.out_features)) ** 0.5
        assert 0.8 * end < float(layer.weight.detach().abs().max()) <= 1.001 * end
        assert not layer.bias.any()


def test_label_smoothing_by_hand() -> None:
    scores = torch.tensor([[[2.0, 0.0, 1.0]], [[5.0, 1.0, 1.0]]])
    logs = scores[0, 0] - math.log(math.exp(2) + 1 + math.e)
    right, all_ids = -float(logs[2]), -float(logs.sum())
    labels = torch.tensor([[2], [-1]])  # the second row has nothing to predict
    assert float(loss(scores, labels, -1)) == pytest.approx(right)
    assert float(loss(scores, labels, -1, 0.1)) == pytest.approx(0.9 * right + 0.1 / 3 * all_ids)


def test_positions_are_not_lost_on_the_meta_device() -> None:
    """They are not stored. They are sent to the device of each pass, from a copy that stays."""
    plain, made, pixels = net("rope"), net("rope").to("meta"), images()
    assert made(pixels.to("meta")).is_meta
    made.to_empty(device="cpu").load_state_dict(plain.state_dict())
    assert torch.equal(made(pixels), plain(pixels))
