"""The whole model, compared with a second transformer that is written plainly and uses the same weights.

No hooks, no shared terms, no fused attention: one query, one key, one head at a time, with the
scheme's mathematics spelled out. What is wired wrongly anywhere (a locality bias that does not reach
an attention, a mask, a norm, a shift of positions) shows as a difference. The mathematics of a scheme
that is not spelled out here is that of its own test file (`DERIVED`).
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from ape_cli import position, tasks
from ape_cli.attention import AttentionContext
from ape_cli.core.vocabulary import EOS, SOS
from ape_cli.data.batches import SequenceBatch
from ape_cli.data.collation import PositionReading
from ape_cli.evaluation import metrics
from ape_cli.models.transformer import Transformer
from ape_cli.structure import Seq

D, H, K, IDS = 16, 2, 8, 12
# The function in tests/position/test_SCHEME.py that derives a hook of the scheme again, without calling the hook.
DERIVED = {
    "embed": "embedding(scheme, i), the vector that is added to the token at position i, [D]",
    "rotate": "operator(scheme, head, i, side), the matrix that multiplies the vector at position i, [K, K]",
    "bias": "formula(scheme, head, i, j), the number that is added to the logit of a query at i and a key at j",
    "logits": "scores(scheme, head, module, q, k, y, i, places), the logits of a query q [K] at i and keys k [N, K] at "
    "these places; `module` is that of the layer, y [N, D] is what the layer reads, and its last row is the query's",
}


def derived(scheme: position.Scheme, hook: str) -> Callable[..., Any]:
    """The function of the scheme's own test file that derives a hook again."""
    name = f"test_{scheme.name.replace('-', '_')}"
    module = f"tests.position.{name}"
    found = importlib.import_module(module) if importlib.util.find_spec(module) else None
    function = getattr(found, DERIVED[hook].partition("(")[0], None)
    assert function, f"write in tests/position/{name}.py: {DERIVED[hook]}"
    return function


def net(name: str, decay: float, dropout: float = 0.0, **options: Any) -> Transformer:
    generator = torch.Generator().manual_seed(4)
    scheme = position.make(name, D, H, max_size=3, decay=decay, generator=generator, **options)
    made = Transformer(
        scheme, ids=IDS, d_ff=24, encoder_layers=2, decoder_layers=2, dropout=dropout, generator=generator
    )
    return made.double()


def path(heap: int) -> list[int]:
    return [int(b) for b in bin(max(heap, 1))[3:]]


def steps_between(scheme: position.Scheme, x: int | list[int], y: int | list[int]) -> float:
    """The length of the path, or the straight line between two [row, column]."""
    if isinstance(x, list):
        return (
            math.dist(x, y) if getattr(scheme, "metric", "path") == "euclidean" else abs(x[0] - y[0]) + abs(x[1] - y[1])
        )
    if scheme.structures != ("tree(k)",):
        return abs(x - y)
    a, b = path(x), path(y)
    return len(a) + len(b) - 2 * shared(a, b)


def shared(a: list[int], b: list[int]) -> int:
    """The number of branches at the start of two paths that are the same."""
    count = 0
    while count < min(len(a), len(b)) and a[count] == b[count]:
        count += 1
    return count


def operator(scheme: position.Scheme, at: int | list[int], head: int, side: str = "query") -> Tensor:
    """[x]: the operator that is applied to the vector, for schemes with operators; otherwise the identity."""
    identity = torch.eye(K, dtype=torch.float64)
    if scheme.name == "orthogonal-grid":
        each = (part.generators()[0, head] for part in scheme.operators.parts)
        return torch.block_diag(*(torch.linalg.matrix_power(w, p) for w, p in zip(each, at, strict=True)))
    if scheme.name in ("orthogonal-seq", "orthogonal"):
        return torch.linalg.matrix_power(scheme.generators()[0, head], at)
    if scheme.name == "orthogonal-tree":
        for branch in path(at):
            identity = identity @ scheme.generators()[branch, head]
        return identity
    if scheme.name == "lie":
        return torch.linalg.matrix_exp(sum(p * (a - a.T) for p, a in zip(at, scheme.free[:, head], strict=True)))
    if scheme.name in ("rope", "xpos", "axial-rope", "mixed-rope", "wire"):
        for i in range(K // 2):
            c, s = (size(scheme, at, i, side) * f(angle(scheme, at, head, i)) for f in (math.cos, math.sin))
            identity[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = torch.tensor([[c, -s], [s, c]], dtype=torch.float64)
    elif scheme.overrides("rotate") and scheme.name != "transformer-xl":
        return derived(scheme, "rotate")(scheme, head, at, side)
    return identity


def angle(scheme: position.Scheme, at: int | list[int], head: int, pair: int) -> float:
    """The angle by which a pair of channels is turned."""
    if scheme.name == "axial-rope":  # two pairs for the row, two for the column
        return at[pair // 2] * 100 ** (-(pair % 2) / 2)
    if scheme.name == "mixed-rope":
        return sum(p * float(f) for p, f in zip(at, scheme.frequencies[:, head, pair], strict=True))
    if scheme.name == "wire":
        return float(scheme.frequencies[head, pair] @ spectral(max(at, 1), scheme.source_nodes))
    return at * scheme.base ** (-2 * pair / K)


def spectral(heap: int, tree: list[int]) -> Tensor:
    """The entries at a node of the eigenvectors of D - A that do not vanish at the root, which is positive."""
    joined = torch.tensor([[float(x // 2 == y or y // 2 == x) for y in tree] for x in tree], dtype=torch.float64)
    vectors = torch.linalg.eigh(joined.sum(1).diag() - joined)[1]  # no eigenvalue of the tree is repeated
    seen = [v * v[0].sign() for v in vectors.T[1:] if abs(v[0]) > 1e-9]
    found = torch.zeros(8, dtype=torch.float64)
    for i, v in enumerate(seen if heap in tree else []):
        found[i] = v[tree.index(heap)]
    return found


def size(scheme: position.Scheme, at: int | list[int], pair: int, side: str) -> float:
    """The factor by which a pair of channels is multiplied."""
    if scheme.name != "xpos":
        return 1.0
    rate = (2 * pair / K + scheme.gamma) / (1 + scheme.gamma)
    return rate ** ((at if side == "query" else -at) / scheme.scale_base)


def of_nodes(scheme: position.Scheme, at: int, of: int, head: int, place: str) -> Tensor:
    """The term of schemes whose term depends on the steps up and down between two nodes."""
    a, b = path(at), path(of)
    up, down = len(a) - shared(a, b), len(b) - shared(a, b)
    kind = up + down if scheme.name == "tree-distance" else 4 * up + down  # up to 3 steps each
    return scheme.scalars[["encoder", "decoder", "cross"].index(place), head, kind]


def bias(scheme: position.Scheme, q: Tensor, at: Any, of: Any, head: int, place: str) -> Tensor | float:
    """The term that is added to the score of a query and a key at these positions, after 1/sqrt(K)."""
    if not scheme.overrides("bias"):
        return 0.0
    if scheme.name in ("tree-distance", "tree-path"):
        return of_nodes(scheme, at, of, head, place)
    if scheme.name not in ("relative", "t5", "transformer-xl"):
        return derived(scheme, "bias")(scheme, head, at, of)
    offset = of - at
    if scheme.name == "relative":
        return q @ scheme.offsets[max(-3, min(3, offset)) + 3] / K**0.5
    # offsets below 8 (16 in the decoder) have their own buckets; keys ahead use those from 16 on, none in the decoder
    if scheme.name == "t5":
        assert abs(offset) < (16 if place == "decoder" else 8)
        bucket = 16 + offset if offset > 0 and place != "decoder" else max(0, -offset)
        return scheme.scalars[["encoder", "decoder", "cross"].index(place), head, bucket]
    angles = [-offset / 10_000 ** (2 * i / D) for i in range(D // 2)]
    s = torch.tensor([f(a) for a in angles for f in (math.sin, math.cos)], dtype=torch.float64)
    r = scheme.project[head] @ s
    return (q + scheme.v[head]) @ r / K**0.5


def scores_of_content(
    scheme: position.Scheme, key: str, q: Tensor, k: Tensor, y: Tensor, head: int, at: int, of: list
) -> list[Tensor]:
    """The scores of a query, with 1/sqrt(K), for schemes whose scores depend on content.

    If the scheme is `causal_only`, the query's token is the last. q: [K], k: [N, K], y: what the layer reads, [N, D].
    `key`: of the layer's module. `at` and `of`: the positions of the query and the keys.
    """
    products = k @ q / K**0.5
    if scheme.name == "pope":
        magnitude = (1 + q.exp()).log() * (1 + k.exp()).log()
        step = torch.tensor([scheme.base ** (-c / K) for c in range(K)])
        phase = torch.tensor(of[: len(k)])[:, None] * step - at * step + scheme.free[head].clamp(-2 * math.pi, 0)
        return list((magnitude * phase.cos()).sum(1) / K**0.5)
    if scheme.name == "contextual":
        gates, e = products.sigmoid(), torch.cat([scheme.vectors, scheme.vectors[-1:]])
        places = [min(float(gates[n:].sum()), len(e) - 2.0) for n in range(len(k))]
        below = [math.floor(p) for p in places]
        terms = [q @ e[b] + (p - b) * (q @ (e[b + 1] - e[b])) for p, b in zip(places, below, strict=True)]
        return [product + term / K**0.5 for product, term in zip(products, terms, strict=True)]
    module = scheme.layers[key] if scheme.overrides("layer") else None
    if scheme.name not in ("selective-rope", "forget", "path"):
        return list(derived(scheme, "logits")(scheme, head, module, q, k, y, at, of))
    if scheme.name == "selective-rope":
        x = torch.cat([part / (part.square().sum(-1, keepdim=True) + 1e-6).sqrt() for part in y.chunk(H, dim=-1)], -1)
        phi = torch.stack(convolved(module.convolution, [module.project(token) for token in x]))
        pairs, scores = phi[:, head * K // 2 : (head + 1) * K // 2], []
        if scheme.has_bias:
            pairs = (pairs + module.bias[head].exp()) / (1 + (-module.gate(x)[:, head, None]).exp())
        for n in range(len(k)):
            angles = [float(pairs[n + 1 :, c].sum()) / 500_000 ** (2 * c / K) for c in range(K // 2)]
            turned = [
                q[c] * (k[n, c] * math.cos(a) + k[n, c + K // 2] * math.sin(a))
                + q[c + K // 2] * (k[n, c + K // 2] * math.cos(a) - k[n, c] * math.sin(a))
                for c, a in enumerate(angles)
            ]
            scores.append(sum(turned) / K**0.5)
        return scores
    if scheme.name == "forget":
        return [products[n] + gate_sum(module, y[n + 1 :], head) for n in range(len(k))]
    beta, carried, scores = 2 / (1 + (-module.beta(y)[:, head]).exp()), q, []
    vectors = convolved(module.convolution, [module.w(token) for token in y])
    for n in reversed(range(len(k))):
        between = gate_sum(module.gates, y[n + 1 :], head) if scheme.forget else 0.0
        scores.append(carried @ k[n] / K**0.5 + between)
        w = vectors[n][head * K : (head + 1) * K]
        w = w if module.convolution is None else w / (1 + (-w).exp())
        w = w / w.norm()
        carried = carried - beta[n] * (carried @ w) * w
    return scores[::-1]


def gate_sum(gates: Any, y: Tensor, head: int) -> Tensor:
    """The sum of the log-gates of tokens. y: [N, D]"""
    return (1 / (1 + (-gates.project(y)[:, head]).exp())).log().sum()


def convolved(convolution: Any, tokens: list[Tensor]) -> list[Tensor]:
    """The causal convolution of each channel. The last weight is that of the token itself."""
    if convolution is None:
        return tokens
    weights = convolution.weight.flip(1).T
    return [sum((w * x for w, x in zip(weights, tokens[n::-1], strict=False)), 0 * x) for n, x in enumerate(tokens)]


def attend(made: Transformer, layer: torch.nn.Module, x: Tensor, y: Tensor, at: list, of: list, causal: bool):
    scheme, out = made.scheme, torch.zeros_like(x)
    q, k, v = layer.query(x), layer.key(y), layer.value(y)
    for h in range(H):
        part = slice(h * K, (h + 1) * K)
        for m in range(len(at)):
            seen = range(m + 1) if causal else range(len(of))
            scores = []
            own = (
                scores_of_content(
                    scheme, layer.key_in_scheme, q[m, part], k[: len(seen), part], y[: len(seen)], h, at[m], of
                )
                if scheme.overrides("logits")
                else None
            )
            for n in seen:
                between = operator(scheme, at[m], h, "query").T @ operator(scheme, of[n], h, "key")
                asks = q[m, part] + (scheme.u[h] if scheme.name == "transformer-xl" else 0)
                score = asks @ between @ k[n, part] / K**0.5 if own is None else own[n]
                score = score * scheme.shape.decay ** steps_between(scheme, at[m], of[n])
                place = "decoder" if causal else "encoder" if at is of else "cross"
                scores.append(score + bias(scheme, q[m, part], at[m], of[n], h, place))
            weights = torch.stack(scores).softmax(0)
            out[m, part] = sum(w * v[n, part] for w, n in zip(weights, seen, strict=True))
    return layer.out(out)


Attend = Callable[[Transformer, torch.nn.Module, Tensor, Tensor, list, list, bool], Tensor]


def stacked(scheme: position.Scheme, heap: int) -> Tensor:
    """The vector of a node in the scheme `tree`. -> [D]"""
    p, x = torch.tanh(scheme.weights), torch.zeros(D, dtype=torch.float64)
    for j in range(scheme.copies):
        for s, branch in enumerate(path(heap)[::-1][:3]):
            x[6 * j + 2 * s + branch] = p[j] ** s * ((1 - p[j] ** 2) * 6 / 2).sqrt()
    return x


def embedded(made: Transformer, ids: list[int], at: list) -> Tensor:
    x = made.embedding[ids] * D**0.5
    if made.scheme.name == "sinusoidal":
        for n, p in enumerate(at):
            axes = p if isinstance(p, list) else [p]
            share = D // len(axes)
            for i in range(D):
                angle = axes[i // share] / 10_000 ** (2 * (i % share // 2) / share)
                x[n, i] = x[n, i] + (math.cos(angle) if i % 2 else math.sin(angle))
    elif made.scheme.name in ("learned", "tree-learned"):  # the table of nodes begins with the root, 1
        for n, p in enumerate(at):
            x[n] = x[n] + made.scheme.table[min(p, 3) if made.scheme.name == "learned" else max(p, 1) - 1]
    elif made.scheme.name == "matrix-power":
        for n, p in enumerate(at):
            for i in range(0, D, 2):  # a rotation by -p theta^(i/2) maps (0, 1) to (sin, cos)
                angle = p * 10_000 ** (-i / D)
                x[n, i], x[n, i + 1] = x[n, i] + math.sin(angle), x[n, i + 1] + math.cos(angle)
    elif made.scheme.name == "tree":
        x = x + torch.stack([stacked(made.scheme, heap) for heap in at])
    elif made.scheme.overrides("embed"):
        x = x + torch.stack([derived(made.scheme, "embed")(made.scheme, i) for i in at])
    return x


def norm(layer: torch.nn.LayerNorm, x: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * layer.weight + layer.bias


def feed(ff: torch.nn.Module, x: Tensor) -> Tensor:
    return ff.outer(ff.inner(x).clamp(min=0))


def reference(
    made: Transformer, source: list, source_at: list, target: list, target_at: list, attend: Attend = attend
) -> Tensor:
    made.scheme.source_nodes = source_at
    x = embedded(made, source, source_at)
    for layer in made.encoder:
        inner = norm(layer.self_norm, x)
        x = x + attend(made, layer.self_attention, inner, inner, source_at, source_at, False)
        x = x + feed(layer.ff, norm(layer.ff_norm, x))
    memory = norm(made.encoder_norm, x)
    y = embedded(made, target, target_at)
    for layer in made.decoder:
        inner = norm(layer.self_norm, y)
        y = y + attend(made, layer.self_attention, inner, inner, target_at, target_at, True)
        inner = norm(layer.cross_norm, y)
        y = y + attend(made, layer.cross_attention, inner, memory, target_at, source_at, False)
        y = y + feed(layer.ff, norm(layer.ff_norm, y))
    return norm(made.decoder_norm, y) @ made.embedding.T


SOURCE, TARGET = [3, 7, 9, 4, 11], [1, 5, 6, 10]
GRID = [[row, column] for row in (1, 2, 3) for column in (1, 2, 3)]
# lengths of source and target, and of a longer row in the same batch, including SOS
PLACES: dict[str, tuple[list, list, list]] = {
    "seq": ([1, 2, 3, 4, 5], [0, 1, 2, 3], [0, 1, 2, 3, 4, 5, 6, 7]),
    "tree(2)": ([1, 2, 3, 6, 7], [0, 1, 2, 3], [0, 1, 2, 3, 4, 5, 6, 7]),
    "grid(2)": ([[1, 1], [1, 2], [2, 1], [2, 2], [3, 1]], [[0, 0], [1, 1], [1, 2], [1, 3]], [[0, 0], *GRID[:7]]),
}
CASES: list[tuple[str, float, dict[str, Any]]] = [(name, c, {}) for name in position.names() for c in (1.0, 0.8)]
CASES += [("sinusoidal", 0.8, {"structure": "grid(2)"}), ("orthogonal-grid", 0.8, {"distance": "euclidean"})]
CASES += [("path", 1.0, {"convolution": 6, "forget": True}), ("pope", 1.0, {"init": "uniform", "base": 50.0})]
CASES += [("selective-rope", 1.0, {"gate": True, "bias": True}), ("selective-rope", 1.0, {"convolution": 0})]
CASES += [("xpos", 1.0, {"base": 50.0, "scale_base": 10.0, "gamma": 0.7})]


@torch.no_grad()
@pytest.mark.parametrize(
    ("name", "decay", "options"), [case for case in CASES if not position.load(case[0]).causal_only]
)
def test_the_model_is_the_plain_one(name: str, decay: float, options: dict[str, Any]) -> None:
    """The scores of a row in a batch with a longer row, so that it has padding."""
    made = net(name, decay, **options).eval()
    source_at, target_at, longer = PLACES[made.scheme.structure.expression]
    expected = reference(made, SOURCE, source_at, TARGET, target_at)
    wide = [[*SOURCE, 0, 0], [4, 5, 6, 7, 8, 9, 10]]
    wide_at = [[*source_at, longer[0], longer[0]], longer[1:]]
    targets, targets_at = [[*TARGET, 0], [1, 9, 8, 7, 6]], [[*target_at, longer[0]], longer[:5]]
    ids = torch.tensor(wide)
    found = made(ids, torch.tensor(wide_at), ids != 0, torch.tensor(targets), torch.tensor(targets_at))
    assert torch.allclose(found[0, :4], expected, atol=1e-9)


@torch.no_grad()
def test_greedy_writes_what_a_loop_by_hand_writes() -> None:
    """The model writes symbol by symbol, with SOS at 0 and symbol t at t.

    The labels are the output of the loop above.
    """
    made = net("rope", 0.9).eval()
    for stack in (made.encoder, made.decoder):  # large enough that attention decides the output
        for label, weight in stack.named_parameters():
            if label.endswith("weight") and weight.dim() == 2:
                weight.mul_(6.0)
    written, at = [SOS], [0]
    for t in range(1, 9):
        scores = reference(made, SOURCE, [1, 2, 3, 4, 5], written, at)[-1]
        written.append(int(scores.argmax()))
        at.append(t)
    assert len(set(written)) > 4
    assert EOS not in written
    ids, labels = torch.tensor([SOURCE]), torch.tensor([written[1:]])
    none = torch.zeros(1, dtype=torch.int64).numpy()
    batch = SequenceBatch(
        ids, torch.arange(1, 6)[None], ids != 0, labels, torch.arange(8)[None], labels, none, none, none
    )
    reading = PositionReading.of(Seq(), None)
    tally = metrics.greedy(made, [batch], torch.device("cpu"), "fp32", tasks.make("copy"), reading)
    assert tally.columns()["correct"].tolist() == [8]


@pytest.mark.parametrize("decay", [1.0, 0.9])
def test_dropout_is_at_work_in_training_alone(decay: float) -> None:
    """Dropout acts on attention weights (both paths), in the feed-forward network and on embeddings, and never in
    evaluation.
    """
    made = net("rope", decay, dropout=0.5)
    layer, x = made.encoder[0], torch.randn(1, 5, D, dtype=torch.float64)
    context = made.scheme.context(torch.arange(5)[None])
    link = AttentionContext.of(made.scheme, context, context)
    ids = torch.tensor([SOURCE])
    for part in (
        lambda: layer.self_attention(x, x, made.scheme, link),
        lambda: layer.ff(x),
        lambda: made.embed(ids, context),
    ):
        made.train()
        assert not torch.equal(part(), part())
        made.eval()
        assert torch.equal(part(), part())
