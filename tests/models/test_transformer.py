"""The shared transformer: its size, its initialisation, and the two paths of attention."""

from __future__ import annotations

import pytest
import torch

from ape_cli import position
from ape_cli.attention import Attention
from ape_cli.experiment import ExperimentSpec
from ape_cli.models import factory, transformer
from ape_cli.models.transformer import loss
from ape_cli.structure import Seq


def net(name: str = "rope", **options: float) -> transformer.Transformer:
    generator = torch.Generator().manual_seed(1)
    scheme = position.make(name, 512, 8, generator=generator, **options)
    return transformer.Transformer(
        scheme, ids=23, d_ff=2048, encoder_layers=2, decoder_layers=2, dropout=0.15, generator=generator
    )


def test_parameters_are_those_of_table_4() -> None:
    """Count the parameters of two encoder and two decoder layers of width 512 by hand. The embeddings are shared."""
    d, f, ids = 512, 2048, 23
    attend, forward, norm = 4 * (d * d + d), 2 * d * f + f + d, 2 * d
    encoder = 2 * (attend + forward + 2 * norm) + norm
    decoder = 2 * (2 * attend + forward + 3 * norm) + norm
    assert sum(p.numel() for p in net().parameters()) == encoder + decoder + ids * d


def test_weights_start_as_documented() -> None:
    """Xavier's uniform distribution ends at sqrt(6 / (in + out)); its deviation is this end divided by sqrt(3)."""
    made = net()
    layers = [layer for stack in (made.encoder, made.decoder) for layer in stack.modules()]
    linear = [layer for layer in layers if isinstance(layer, torch.nn.Linear)]
    assert len(linear) == 2 * (4 + 2) + 2 * (8 + 2)
    for layer in linear:
        end, weight = (6 / (layer.in_features + layer.out_features)) ** 0.5, layer.weight.detach()
        assert float(weight.abs().max()) == pytest.approx(end, rel=1e-3)
        assert float(weight.std()) == pytest.approx(end / 3**0.5, rel=0.02)
        assert not layer.bias.any()
    assert float(made.embedding.detach().std()) == pytest.approx(512**-0.5, rel=0.03)


@pytest.mark.parametrize("name", ["sinusoidal", "learned", "rope"])
def test_positions_are_added_with_their_scale(name: str) -> None:
    """Sinusoids have a root mean square of 0.71. With a scale of 0.044 it is that of the authors' ratio, 1 in 32."""
    scheme = position.make(name, 512, 8, max_size=20, generator=torch.Generator().manual_seed(1))
    made = transformer.Transformer(
        scheme, ids=23, d_ff=4, encoder_layers=1, decoder_layers=1, dropout=0.0, positions_scale=0.044
    )
    ids, context = torch.arange(3, 23)[None], scheme.context(torch.arange(20)[None])
    tokens = made.embedding[ids] * 512**0.5
    added = made.embed(ids, context) - tokens
    own = scheme.embed(torch.zeros_like(tokens), context)
    assert torch.allclose(added, 0.044 * own, atol=1e-5)
    assert name == "rope" or abs(float((added.detach() ** 2).mean().sqrt()) - 0.044 * 0.5**0.5) < 1e-3


def test_dropout_can_act_on_branches_alone() -> None:
    """Without the branches' own dropout, nothing is random any more. With them, embeddings and insides are not."""
    scheme = position.make("sinusoidal", 16, 2)
    made = transformer.Transformer(
        scheme, ids=23, d_ff=32, encoder_layers=1, decoder_layers=1, dropout=0.5, branches_only=True
    ).train()
    ids, at = torch.arange(3, 11)[None], torch.arange(8)[None]
    given = (ids, at, torch.ones_like(ids, dtype=torch.bool), ids, at)
    context = scheme.context(at)
    assert torch.equal(made.embed(ids, context), made.embed(ids, context))
    assert not torch.equal(made(*given), made(*given))
    for layer in (*made.encoder, *made.decoder):
        assert layer.dropout.p == 0.5
        layer.dropout.p = 0.0
    assert torch.equal(made(*given), made(*given))


def test_loss_is_summed_over_real_labels() -> None:
    scores = torch.randn(2, 3, 5)
    labels = torch.tensor([[3, 4, 0], [2, 0, 0]])
    by_hand = -sum(scores[b, m].log_softmax(-1)[labels[b, m]] for b, m in [(0, 0), (0, 1), (1, 0)])
    assert torch.isclose(loss(scores, labels), by_hand)


def test_rows_of_a_table_are_added_up_by_a_product() -> None:
    """The path for GPUs has the same gradient as torch's own embedding."""
    table = torch.randn(7, 5, dtype=torch.float64, requires_grad=True)
    ids = torch.randint(0, 7, (3, 11))
    found = transformer._Lookup.apply(ids, table)
    weights = torch.randn_like(found)
    expected = torch.nn.functional.embedding(ids, table)
    assert torch.equal(found, expected)
    one, other = (torch.autograd.grad((x * weights).sum(), table)[0] for x in (found, expected))
    assert torch.allclose(one, other, rtol=0, atol=1e-12)


def test_several_projections_are_one_product() -> None:
    """The path for GPUs: queries, keys and values by one product or by three, with and without a frame."""
    layer = Attention(position.make("none", 16, 2), 0.0).double()
    x, frame = torch.randn(3, 5, 16, dtype=torch.float64), torch.randn(2, 8, 8, dtype=torch.float64)
    layers = [(layer.query, frame), (layer.key, frame), (layer.value, None)]
    for one, of in zip(layer._project(x, *layers), layers, strict=True):
        (expected,) = layer._project(x, of)
        assert one.shape == (3, 2, 5, 8)
        assert torch.allclose(one, expected, rtol=0, atol=1e-12)


def test_parameters_are_those_of_the_published_paper() -> None:
    """By hand: the feed-forward blocks have 512 channels in the encoder and 1,024 in the decoder."""
    d, ids = 512, 23
    attend, norm = 4 * (d * d + d), 2 * d
    encoder = 2 * (attend + (2 * d * 512 + 512 + d) + 2 * norm) + norm
    decoder = 2 * (2 * attend + (2 * d * 1024 + 1024 + d) + 3 * norm) + norm
    made = factory.build(ExperimentSpec(preset="neurips", scheme="rope").config("sequence"), Seq(), ids)
    assert sum(p.numel() for p in made.parameters()) == encoder + decoder + ids * d == 9_478_656
