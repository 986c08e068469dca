"""A contract for every scheme that is found: the laws that it claims, and its behaviour in a model."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ape_cli import attention, position
from ape_cli.core.errors import UsageError
from ape_cli.evaluation.laws import scheme as laws
from ape_cli.evaluation.laws._subjects import examples
from ape_cli.models.decoder import DecoderOnly
from ape_cli.position import Context, Scheme
from ape_cli.structure import Structure, Tree, parse_structure
from tests.position.draws import draw

D, H, K = 32, 4, 8
READS = [(name, expression) for name in position.names() for expression in examples(name)]


def make(name: str, expression: str, seed: int = 3, **options: float) -> Scheme:
    generator = torch.Generator().manual_seed(seed)
    size = {"max_size": 6} | options
    return position.make(name, D, H, structure=expression, generator=generator, **size).double()


def places(expression: str, rows: int = 3, count: int = 10) -> torch.Tensor:
    """Distinct positions in each row, with SOS first (on rings, distinct up to whole turns)."""
    torch.manual_seed(5)

    def one(simple: Structure) -> torch.Tensor:
        high = 64 if isinstance(simple, Tree) else 30
        drawn = torch.stack([torch.randperm(high - 1)[: count - 1] + 1 for _ in range(rows)])
        return torch.cat([torch.zeros(rows, 1, dtype=torch.int64), drawn], dim=1)

    return together([one(simple) for simple in parse_structure(expression).simple])


def together(coordinates: list[torch.Tensor]) -> torch.Tensor:
    return coordinates[0] if len(coordinates) == 1 else torch.stack(coordinates, dim=-1)


def step(expression: str, other: int, tree: int) -> torch.Tensor:
    """A position that has one number in trees and another one elsewhere. -> [] or [C]"""
    simple = parse_structure(expression).simple
    return together([torch.tensor(tree if isinstance(s, Tree) else other) for s in simple])


def vectors(seed: int, rows: int = 3, count: int = 10) -> torch.Tensor:
    return draw(rows, H, count, K, seed=seed)


def logits(scheme: Scheme, q: torch.Tensor, k: torch.Tensor, at: Context, of: Context) -> torch.Tensor:
    """The scores of a scheme; without those of later keys if it is only for causal attention."""
    width = scheme.shape.d_model
    tokens = draw(len(k), k.shape[2], width, seed=6)
    content = laws.content_of(scheme, "decoder", tokens.to(next(scheme.parameters(), q).dtype))
    found = attention.logits(scheme, q, k, at, of, content)
    return found.tril() if scheme.causal_only else found


@pytest.mark.parametrize(("name", "expression"), READS)
def test_dtypes(name: str, expression: str) -> None:
    """Under autocast, a float32 scheme gets tokens and queries in bfloat16."""
    for own, dtype in ((torch.float32, torch.bfloat16), (torch.float32, torch.float32), (torch.float64, torch.float64)):
        scheme = make(name, expression, decay=0.9).to(own)
        context = scheme.context(places(expression))
        x = torch.randn(3, 10, D, dtype=dtype)
        assert scheme.embed(x, context).dtype == dtype
        q = vectors(1).to(dtype)
        assert scheme.rotate(q, context, "query").dtype == dtype
        bias = scheme.bias(q, context, context)
        assert bias is None or bias.dtype == dtype
        assert logits(scheme, q, q, context, context).dtype == dtype


def test_the_paper_s_defaults_of_the_locality_bias() -> None:
    for name in position.names():
        expected = 0.98 if name.startswith("orthogonal") else 1.0
        assert position.make(name, D, H, max_size=4).shape.decay == expected


@pytest.mark.parametrize(("name", "expression"), READS)
def test_sos_is_the_empty_path(name: str, expression: str) -> None:
    """Position 0 acts like the root of a tree, whose operator is the identity.

    No scheme gives SOS the place of a child.
    """
    scheme = make(name, expression)
    x = vectors(1, rows=1, count=1)
    zero = scheme.context(step(expression, 0, 0)[None, None])
    if any(isinstance(s, Tree) for s in parse_structure(expression).simple):
        one = scheme.context(step(expression, 0, 1)[None, None])
        assert torch.equal(scheme.rotate(x, zero, "key"), scheme.rotate(x, one, "key"))
        embedded = torch.zeros(1, 1, D, dtype=torch.float64)
        assert torch.equal(scheme.embed(embedded, zero), scheme.embed(embedded, one))
    assert torch.allclose(scheme.rotate(x, zero, "key").norm(), x.norm())


@pytest.mark.parametrize(("name", "expression"), READS)
def test_additive_vectors_are_of_the_tokens_size(name: str, expression: str) -> None:
    """At initialisation, positions do not dominate the embeddings, and embeddings do not dominate positions."""
    if position.load(name).needs_encoder:
        assert not position.load(name).overrides("embed")
        return
    scheme = position.make(name, 256, 4, structure=expression, max_size=6)
    net = DecoderOnly(scheme, ids=100, d_ff=8, layers=1, sides=False, dropout=0.0)
    ids = torch.arange(3, 100)[None, :29]
    at = together([torch.arange(32, 61)[None]] * parse_structure(expression).width)
    context = scheme.context(at)
    tokens = torch.nn.functional.embedding(ids, net.embedding) * 16
    added = net.embed(ids, context) - tokens
    assert 0.9 < float(tokens.detach().std()) < 1.1
    ratio = float((added.norm() / tokens.norm()).detach())
    assert ratio == 0 or 0.4 < ratio < 1.5, ratio


@pytest.mark.parametrize("name", position.names())
def test_properties_tell_the_truth(name: str) -> None:
    scheme = position.make(name, D, H, max_size=4)
    properties = scheme.properties
    assert properties.parameters == sum(p.numel() for p in scheme.parameters())
    assert properties.learnable == (properties.parameters > 0)
    assert properties.source
    assert scheme.name == name
    sizes = {sum(p.numel() for p in position.make(name, D, H, max_size=m).parameters()) for m in (2, 4)}
    assert properties.bounded == (len(sizes) > 1)


def test_no_scheme_touches_the_global_generator() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    for name in position.names():
        one = position.make(name, D, H, max_size=4, generator=torch.Generator().manual_seed(3))
        two = position.make(name, D, H, max_size=4, generator=torch.Generator().manual_seed(3))
        for a, b in zip(one.parameters(), two.parameters(), strict=True):
            assert torch.equal(a, b)
    assert torch.equal(torch.get_rng_state(), before)


def test_weights_that_a_scheme_draws_itself_are_repeatable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of `nn.Embedding` come from the global generator. They follow from the seed. Its state is kept."""

    class Own(Scheme):
        """Learns a table."""

        def __init__(self, shape: position.Shape) -> None:
            super().__init__(shape)
            self.table = torch.nn.Embedding(5, shape.d_model)

    monkeypatch.setattr(position, "load", lambda name: Own)

    def weights(seed: int) -> torch.Tensor:
        torch.rand(1)  # changes the state of the global generator
        before = torch.get_rng_state()
        made = position.make("own", d_model=8, heads=2, generator=torch.Generator().manual_seed(seed))
        assert torch.equal(before, torch.get_rng_state())
        return made.table.weight.detach()  # type: ignore[union-attr, operator]

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))
    assert not torch.equal(weights(1), torch.randn(5, 8, generator=torch.Generator().manual_seed(1)))


def test_mistakes_are_explained() -> None:
    cases = [
        (lambda: position.make("ropee"), r"unknown scheme[\s\S]*did you mean 'rope'"),
        (lambda: position.make("rope", decay=1.5), "bad decay"),
        (lambda: position.make("rope", structure="tree(2)"), "cannot read"),
        (lambda: position.make("relative", max_size=0), "bad max_size"),
        (lambda: position.make("rope", bass=3), r"unknown option of rope[\s\S]*'base'"),
        (lambda: position.make("rope", base=float("inf")), "finite"),
        (lambda: position.make("rope").context(torch.ones(3)), "bad positions"),
        (lambda: position.make("orthogonal-tree").context(torch.tensor([[1, -2]])), "negative position"),
        (lambda: position.make("t5", buckets=6), "multiple of 4"),
    ]
    for call, message in cases:
        with pytest.raises(UsageError, match=message):
            call()


BAD_OPTIONS: dict[str, list[tuple[dict[str, Any], str]]] = {
    "axial-rope": [({"base": 1.0}, "bad base"), ({"structure": "grid(5)"}, r"too narrow for grid\(5\)[\s\S]*least 10")],
    "mixed-rope": [({"base": 0.5}, "bad base"), ({"structure": "grid(5)"}, r"too narrow for grid\(5\)")],
    "fire": [({name: bad}, rf"bad {name}[\s\S]*above") for name, bad in (("width", 0), ("threshold", 0.0), ("c", -1))],
    "kerple": [({"kind": "powr"}, r"kind[\s\S]*'power'")],
    "lie": [({"block": block}, r"bad block[\s\S]*that divides the 8 channels") for block in (-2, 1, 3, 6, 16)],
    "orthogonal-grid": [
        ({"distance": "euclidian"}, r"unknown distance[\s\S]*did you mean 'euclidean'"),
        ({"distance": "euclidean", "decay": 1.0}, r"no effect without a locality bias[\s\S]*decay=0\.98"),
    ],
    "pope": [({"base": 1.0}, "bad base"), ({"init": "zeros"}, r"unknown init[\s\S]*did you mean 'zero'")],
    **{name: [({"slopes": "pres"}, r"unknown slopes[\s\S]*did you mean 'press'")] for name in ("alibi", "shear")},
    "path": [*(({"rank": rank}, "bad rank") for rank in (-1, 9)), ({"convolution": -1}, "bad convolution")],
    "selective-rope": [({name: bad}, f"bad {name}") for name, bad in (("rank", 9), ("convolution", -1), ("base", 1.0))],
    "rope": [({"partial": share}, r"bad partial[\s\S]*8 channels") for share in (0.0, -0.5, 1.5, 0.3, 1 / 8, 3 / 8)],
    "wire": [
        ({"features": "laplace"}, r"unknown features[\s\S]*did you mean 'laplacian'"),
        ({"count": 0}, "bad count"),
    ],
    "xpos": [({name: value}, f"bad {name}") for name, value in (("base", 1.0), ("scale_base", 0.0), ("gamma", -1.0))],
    "matrix-power": [
        ({"matrix": 2 * torch.eye(8)}, "not orthogonal"),
        ({"matrix": torch.eye(3)}, "bad matrix"),
        ({"matrix": torch.eye(8), "learned": True}, "not learned"),
        ({"point": torch.ones(8), "multiplicative": True}, "no evaluation point"),
    ],
}


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_bad_options_are_refused(name: str) -> None:
    for options, message in BAD_OPTIONS[name]:
        with pytest.raises(UsageError, match=message):
            position.make(name, d_model=8, heads=1, **options)


def test_normal_draws_start_at_their_size() -> None:
    """The standard deviation, to within a tenth, of 512 draws or more."""
    starts = ("t5", "scalars", 0.02), ("relative", "offsets", 64**-0.5), ("transformer-xl", "u", 0.02)
    for name, parameter, expected in starts:
        scheme = position.make(name, d_model=512, heads=8, generator=torch.Generator().manual_seed(1))
        assert abs(float(getattr(scheme, parameter).detach().std()) / expected - 1) < 0.1, name


@pytest.mark.parametrize("name", ["rope", "axial-rope", "mixed-rope", "lie"])
def test_half_a_turn_twice_is_a_whole_one(name: str) -> None:
    """Positions may be real, as in interpolation. On one line through the origin, the generators of `lie` commute."""
    scheme = position.make(name, 16, 2, generator=torch.Generator().manual_seed(3)).double()
    at = torch.randint(1, 30, (2, 5, scheme.structure.width), generator=torch.Generator().manual_seed(1)).squeeze(-1)
    x, half = torch.randn(2, 2, 5, 8, dtype=torch.float64), scheme.context(at.double() / 2)
    twice = scheme.rotate(scheme.rotate(x, half, "key"), half, "key")
    assert torch.allclose(twice, scheme.rotate(x, scheme.context(at), "key"), atol=1e-12)


def test_positions_of_16_bits_have_the_same_locality_bias() -> None:
    scheme, at = position.make("rope", 16, 2, decay=0.98), torch.arange(60)[None]
    whole, half = (scheme.context(positions) for positions in (at, at.bfloat16()))
    assert torch.equal(scheme.decay(half, half), scheme.decay(whole, whole))
