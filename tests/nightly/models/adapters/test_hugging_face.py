"""Schemes in a Llama and a T5 with random weights, built from a configuration: their results and gradients."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from ape_cli import adapters, attention, position
from ape_cli.attention import AttentionContext
from ape_cli.core.errors import UsageError
from ape_cli.models.adapters.hugging_face import Encoding
from ape_cli.position import Context, Scheme
from tests.position.test_contract import READS, places

transformers = pytest.importorskip("transformers", reason="transformers is a dependency of development")
D, H, N, M = 32, 4, 7, 5
MASK = torch.tensor([[1] * N, [1] * 4 + [0] * (N - 4)])


def llama(**fields: Any) -> Any:
    torch.manual_seed(1)
    given = {"vocab_size": 20, "hidden_size": D, "intermediate_size": 24, "num_hidden_layers": 2, "pad_token_id": 0}
    given |= {"num_attention_heads": H, "num_key_value_heads": 2, "initializer_range": 0.2} | fields
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**given)).double().eval()


def t5(**fields: Any) -> Any:
    torch.manual_seed(2)
    given = {"vocab_size": 20, "d_model": D, "d_kv": D // H, "d_ff": 24, "num_layers": 2, "num_heads": H}
    given |= {"decoder_start_token_id": 0, "initializer_factor": 0.5} | fields
    return transformers.T5ForConditionalGeneration(transformers.T5Config(**given)).double().eval()


def ids(count: int, seed: int = 3) -> Tensor:
    return torch.randint(3, 20, (2, count), generator=torch.Generator().manual_seed(seed))


def changed(model: Any, name: str, expression: str, **options: Any) -> Encoding:
    size = {"max_size": 6} | options
    return adapters.use_scheme(model, name, structure=expression, generator=torch.Generator().manual_seed(5), **size)


def heads(x: Tensor, count: int = H) -> Tensor:
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def ours(scheme: Scheme, q: Tensor, k: Tensor, v: Tensor, query: Context, key: Context) -> Tensor:
    """Our own attention. [B, H, M or N, K] -> [B, M, H K]"""
    return (
        attention.make("dot")
        .attend(scheme, q, k, v, AttentionContext.of(scheme, query, key), 0.0)
        .transpose(1, 2)
        .flatten(2)
    )


def llama_by_hand(model: Any, scheme: Scheme, tokens: Tensor, at: Tensor) -> Tensor:
    """The forward pass of a Llama, with our own attention and the parameters of the model. -> [B, N, V]"""
    context, body = scheme.context(at, causal=True), model.model
    x = scheme.embed(body.embed_tokens(tokens), context)
    for layer in body.layers:
        own, normed = layer.self_attn, layer.input_layernorm(x)
        k, v = (heads(one(normed), 2).repeat_interleave(2, dim=1) for one in (own.k_proj, own.v_proj))
        x = x + own.o_proj(ours(scheme, heads(own.q_proj(normed)), k, v, context, context))
        x = x + layer.mlp(layer.post_attention_layernorm(x))
    return model.lm_head(body.norm(x))


def t5_by_hand(model: Any, scheme: Scheme, source: Tensor, target: Tensor, places: tuple[Tensor, Tensor]) -> Tensor:
    """The forward pass of a T5, with our own attention and the parameters of the model. -> [B, M, V]"""

    def attend(own: Any, x: Tensor, memory: Tensor, query: Context, key: Context) -> Tensor:
        q = heads(own.q(x)) * (D // H) ** 0.5
        return own.o(ours(scheme, q, heads(own.k(memory)), heads(own.v(memory)), query, key))

    from_ = scheme.context(places[0])
    to = scheme.context(places[1], causal=True, shared_with=from_)
    x = scheme.embed(model.shared(source), from_)
    for block in model.encoder.block:
        normed = block.layer[0].layer_norm(x)
        x = block.layer[1](x + attend(block.layer[0].SelfAttention, normed, normed, from_, from_))
    memory, x = model.encoder.final_layer_norm(x), scheme.embed(model.shared(target), to)
    for block in model.decoder.block:
        normed = block.layer[0].layer_norm(x)
        x = x + attend(block.layer[0].SelfAttention, normed, normed, to, to)
        x = x + attend(block.layer[1].EncDecAttention, block.layer[1].layer_norm(x), memory, to, from_)
        x = block.layer[2](x)
    return model.lm_head(model.decoder.final_layer_norm(x) * model_scale(model))


def model_scale(model: Any) -> float:
    """T5 scales its output if it shares the embeddings."""
    return D**-0.5 if getattr(model.config, "scale_decoder_outputs", model.config.tie_word_embeddings) else 1.0


def check_gradients(found: Tensor, model: Any, scheme: Scheme) -> None:
    """Each parameter of the scheme and each projection of queries gets a gradient."""
    functional.cross_entropy(found.flatten(0, 1), ids(found.shape[1], 9).flatten()).backward()
    assert any(parameter is one for one in scheme.parameters() for parameter in model.parameters()) or not list(
        scheme.parameters()
    )
    for name, parameter in model.named_parameters():
        if "q_proj" in name or name.endswith("Attention.q.weight"):
            assert parameter.grad.abs().max() > 0, name
    assert all(parameter.grad is not None for parameter in scheme.parameters())


def is_refused(model: Any, name: str, expression: str) -> bool:
    """Checks that a scheme is refused if it has parameters for each layer, or does not act in the model.

    Returns whether it is.
    """
    scheme = position.load(name)
    elsewhere = scheme.causal_only if model.config.model_type == "t5" else scheme.needs_encoder
    if not (scheme.overrides("layer") or elsewhere):
        return False
    with pytest.raises(UsageError, match="cannot be put into this model"):
        changed(model, name, expression)
    return True


@pytest.mark.parametrize(("name", "expression"), READS)
def test_a_llama_with_each_scheme(name: str, expression: str) -> None:
    model, tokens, at = llama(), ids(N), places(expression, 2, N)
    if is_refused(model, name, expression):
        return
    encoding = changed(model, name, expression)
    with encoding.at(at):
        found = model(tokens).logits
    assert torch.allclose(found, llama_by_hand(model, encoding.scheme, tokens, at), atol=1e-10)
    check_gradients(found, model, encoding.scheme)


@pytest.mark.parametrize(("name", "expression"), READS)
def test_a_t5_with_each_scheme(name: str, expression: str) -> None:
    model, source, target = t5(), ids(N), ids(M, 4)
    at = places(expression, 2, N)[:, 1:], places(expression, 2, M)
    if is_refused(model, name, expression):
        return
    encoding = changed(model, name, expression)
    with encoding.at(*at):
        found = model(input_ids=source[:, 1:], decoder_input_ids=target).logits
    assert torch.allclose(found, t5_by_hand(model, encoding.scheme, source[:, 1:], target, at), atol=1e-10)
    check_gradients(found, model, encoding.scheme)


def test_a_trained_llama_keeps_its_function_with_rope() -> None:
    """By default, `rope` pairs channels as a Llama does and has its base. With another option the loss changes.

    The model has learned to repeat the last three tokens, so its heads attend to a certain offset.
    """
    theta, generator = {"rope_type": "default", "rope_theta": 50.0}, torch.Generator().manual_seed(6)
    plain = llama(num_key_value_heads=H, num_hidden_layers=1, rope_parameters=theta).float()
    optimiser = torch.optim.Adam(plain.parameters(), lr=1e-2)
    for _ in range(100):
        tokens = torch.randint(3, 20, (16, 3), generator=generator).repeat(1, 4)
        optimiser.zero_grad()
        plain(tokens, labels=tokens).loss.backward()
        optimiser.step()
    plain = plain.double()

    def loss(**options: Any) -> float:
        model = copy.deepcopy(plain)
        adapters.use_scheme(model, "rope", **options)
        return model(tokens, labels=tokens).loss.item()

    expected = plain(tokens, labels=tokens).loss.item()
    assert expected < 1.2  # it starts at 3.3; the first tokens cannot be predicted, which alone costs 2 ln(17) / 11
    assert loss() == pytest.approx(expected, abs=1e-6)  # the model's angles are float32
    assert loss(interleaved=True) > expected + 1
    assert abs(loss(base=10_000.0) - expected) > 1e-4


def test_rope_is_the_encoding_of_llama() -> None:
    """With the model's own positions, also behind padding on the left."""
    plain = llama()
    model, tokens, mask = copy.deepcopy(plain), ids(N), MASK.flip(1)
    adapters.use_scheme(model, "rope")
    at = (mask.cumsum(1) - 1).clamp(min=0)
    for given in (
        {},
        {"attention_mask": mask, "position_ids": at},
        {"inputs_embeds": plain.model.embed_tokens(tokens)},
    ):
        words = given if "inputs_embeds" in given else {"input_ids": tokens} | given
        ours, theirs = model(**words).logits, plain(**words).logits
        seen = mask.bool() if "attention_mask" in given else torch.ones_like(mask, dtype=torch.bool)
        assert torch.allclose(ours[seen], theirs[seen], atol=1e-6)  # the model's angles are float32


LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}


@pytest.mark.filterwarnings("ignore")  # the library warns of unusual combinations
@pytest.mark.parametrize("base", [10_000.0, 50.0])
@pytest.mark.parametrize(
    "given",
    [
        {"rope_type": "default", "partial_rotary_factor": 0.5},  # which a Llama does not read
        {"rope_type": "linear", "factor": 4.0},
        LLAMA3 | {"original_max_position_embeddings": 32},
        LLAMA3,  # then it is the longest context
        YARN,
        YARN | {"truncate": False, "finetuned": True},
        YARN | {"factor": None, "beta_fast": 16.0, "beta_slow": 2.0},  # then it is a ratio of two contexts
        YARN | {"mscale": 0.7, "mscale_all_dim": 0.5},
        YARN | {"mscale": 0.7},
        YARN | {"attention_factor": 1.3},
    ],
    ids=str,
)
def test_scaled_rope_is_carried_over(given: dict[str, Any], base: float, tmp_path: Any) -> None:
    """Far beyond the original context too, and after the changed model is stored and loaded.

    Without the scaling, logits differ by 1 or more.
    """
    parameters = {"hidden_size": 128, "max_position_embeddings": 128, "initializer_range": 0.1}
    plain = llama(**parameters, rope_parameters=given | {"rope_theta": base})
    model, tokens = copy.deepcopy(plain), ids(200)
    adapters.use_scheme(model, "rope")
    expected = plain(tokens).logits
    assert torch.allclose(model(tokens).logits, expected, atol=1e-4)  # the model's angles are float32
    model.save_pretrained(tmp_path)
    again = transformers.LlamaForCausalLM.from_pretrained(tmp_path, dtype=torch.float64).eval()
    adapters.use_scheme(again, "rope")
    assert torch.equal(again(tokens).logits, model(tokens).logits)
    if given["rope_type"] != "default":
        other = copy.deepcopy(plain)
        adapters.use_scheme(other, "rope", scaling=None)
        assert (other(tokens).logits - expected).abs().max() > 1


@pytest.mark.parametrize(
    "given",
    [
        {"rope_type": "dynamic", "factor": 2.0},
        {"rope_type": "proportional", "partial_rotary_factor": 0.5},
        YARN | {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4},
    ],
    ids=str,
)
def test_other_types_of_rope_are_refused(given: dict[str, Any]) -> None:
    """Other schemes replace them."""
    model = llama(rope_parameters=given | {"rope_theta": 10_000.0})
    with pytest.raises(UsageError, match=rf"{given['rope_type']}[\s\S]*linear, llama3, yarn[\s\S]*a scheme other"):
        adapters.use_scheme(model, "rope")
    adapters.use_scheme(model, "alibi")
    assert model(ids(N)).logits.isfinite().all()


@pytest.mark.parametrize("name", ["rope", "matrix-power", "alibi", "sinusoidal", "t5", "fire"])
def test_a_model_on_the_meta_device(name: str, tmp_path: Any) -> None:
    """`from_pretrained` builds models there. A scheme without parameters can be put in, and others are refused.

    Their initial values would be lost, and the weights of the model before the change do not have them.
    """

    class Changed(transformers.LlamaForCausalLM):
        def __init__(self, config: Any) -> None:
            super().__init__(config)
            adapters.use_scheme(self, name)

    plain, tokens = llama(), ids(N)
    plain.save_pretrained(tmp_path)
    ours = copy.deepcopy(plain)
    scheme = adapters.use_scheme(ours, name).scheme
    if scheme.properties.learnable:
        with pytest.raises(UsageError, match=r"meta device[\s\S]*load the model first"):
            Changed.from_pretrained(tmp_path)
        return
    with torch.device("meta"):
        empty, assigned = Changed(plain.config).double(), Changed(plain.config)
    empty.to_empty(device="cpu").load_state_dict(ours.state_dict())
    assigned.load_state_dict(ours.state_dict(), assign=True)
    moved = copy.deepcopy(ours).to("meta").to_empty(device="cpu")
    moved.load_state_dict(ours.state_dict())
    for model in (Changed.from_pretrained(tmp_path, dtype=torch.float64), empty, assigned, moved):
        assert torch.equal(model.eval()(tokens).logits, ours(tokens).logits)


def test_t5_is_the_encoding_of_t5() -> None:
    """With the model's own scalars, and without a term between decoder and encoder."""
    plain = t5()
    model, source, target = copy.deepcopy(plain), ids(N), ids(M, 4)
    scheme = adapters.use_scheme(model, "t5", cross=False).scheme
    for place, stack in enumerate((plain.encoder, plain.decoder)):
        scheme.scalars.data[place] = stack.block[0].layer[0].SelfAttention.relative_attention_bias.weight.T
    given = {"input_ids": source, "attention_mask": MASK, "decoder_input_ids": target}
    assert torch.allclose(model(**given).logits, plain(**given).logits, atol=1e-10)


def test_generation_goes_on_without_a_cache() -> None:
    model, tokens = llama(), ids(3)
    adapters.use_scheme(model, "alibi")
    written = model.generate(tokens, max_new_tokens=4, do_sample=False)
    by_hand = tokens
    for _ in range(4):
        best = model(by_hand).logits[:, -1].argmax(-1)
        by_hand = torch.cat([by_hand, best[:, None]], dim=1)
    assert torch.equal(written, by_hand)
    with pytest.raises(UsageError, match=r"no key-value cache[\s\S]*use_cache=False"):
        model(tokens, use_cache=True)


def test_masks_of_another_implementation_are_refused() -> None:
    """They are missing or bool: without them, a decoder would look ahead."""
    for model, words in ((llama(), {}), (t5(), {"decoder_input_ids": ids(M)})):
        adapters.use_scheme(model, "alibi")
        model.set_attn_implementation("sdpa")
        for mask in ({}, {"decoder_attention_mask" if words else "attention_mask": MASK[:, : M if words else N]}):
            with pytest.raises(UsageError, match=r"no mask hides later tokens[\s\S]*eager"):
                model(ids(N), **words, **mask)


def test_its_parameters_are_saved_once(tmp_path: Any) -> None:
    for build in (llama, t5):
        model = build()
        adapters.use_scheme(model, "relative", max_size=3)
        names = [name for name in model.state_dict() if name.endswith("offsets")]
        assert len(names) == 1
        model.save_pretrained(tmp_path / build.__name__)
        other = copy.deepcopy(model)
        with torch.no_grad():
            next(p for n, p in other.named_parameters() if n.endswith("offsets")).mul_(2)
        words = {"input_ids": ids(N)} | ({"decoder_input_ids": ids(M)} if build is t5 else {})
        assert not torch.allclose(other(**words).logits, model(**words).logits)


@pytest.mark.filterwarnings("ignore:`gradient_checkpointing_enable` is deprecated")
@pytest.mark.parametrize(("name", "expression"), READS)
@pytest.mark.parametrize("family", [llama, t5])
def test_gradient_checkpointing(family: Any, name: str, expression: str) -> None:
    """The gradients of all parameters, of the scheme too, are those without it, both ways, with dropout."""
    model = family(**({"attention_dropout": 0.3} if family is llama else {"dropout_rate": 0.3})).train()
    if is_refused(model, name, expression):
        return
    encoding = changed(model, name, expression)
    at, tokens = places(expression, 2, N), ids(N)

    def gradients() -> list[Tensor | None]:
        torch.manual_seed(7)
        model.zero_grad()
        with encoding.at(at, at[:, :M]):
            model(
                input_ids=tokens, attention_mask=MASK, labels=tokens if family is llama else ids(M, 4)
            ).loss.backward()
        return [p.grad for p in model.parameters()]

    expected = gradients()
    learned = {id(p) for p in encoding.parameters()}
    assert all(p.grad is not None for p in model.parameters() if id(p) in learned)
    for reentrant in (False, True):
        model.gradient_checkpointing_enable({"use_reentrant": reentrant})
        for found, grad in zip(gradients(), expected, strict=True):
            assert (found is None) == (grad is None)
            assert grad is None or torch.allclose(found, grad, atol=1e-9), reentrant
        layers = [m for m in model.modules() if getattr(m, "gradient_checkpointing", False)]
        assert len(layers) >= 2
        assert all(m._gradient_checkpointing_func.keywords == {"use_reentrant": reentrant} for m in layers)


@pytest.mark.parametrize("name", ["t5", "alibi", "rope", "orthogonal-seq", "contextual", "none"])
def test_padding_on_the_left(name: str) -> None:
    """Padding changes nothing for the tokens behind it, and a query that sees only padding gets 0."""
    for dtype, tolerance in ((torch.float64, 1e-9), (torch.float32, 1e-4), (torch.bfloat16, 0.1)):
        model = llama()
        encoding = changed(model, name, "seq").to(dtype)
        model.to(dtype)
        tokens, count = ids(N), 3
        mask = torch.tensor([[0] * count + [1] * (N - count), [1] * N])
        at = (mask.cumsum(1) - 1).clamp(min=0)
        attended: list[Tensor] = []
        projection = model.model.layers[1].self_attn.o_proj
        hook = projection.register_forward_pre_hook(lambda _, x, kept=attended: kept.append(x[0]))
        found = model(tokens, attention_mask=mask, position_ids=at).logits
        hook.remove()
        assert not attended[0][0, :count].any()
        assert attended[0][0, count:].any(-1).all()
        alone = model(tokens[:1, count:]).logits
        assert torch.allclose(found[:1, count:], alone, atol=tolerance, rtol=tolerance)
        found[mask.bool()].square().sum().backward()
        assert all(p.grad is None or p.grad.isfinite().all() for p in (*model.parameters(), *encoding.parameters()))


def test_a_source_of_padding_alone() -> None:
    """The decoder of a T5 gets 0 from such a source, so what is in it does not count."""
    for name in ("t5", "alibi", "orthogonal-seq"):
        model = t5()
        changed(model, name, "seq")
        mask, target = torch.tensor([[0] * N, [1] * N]), ids(M, 4)
        one, other = (model(input_ids=ids(N, seed), attention_mask=mask, labels=target) for seed in (3, 8))
        assert torch.allclose(one.logits[0], other.logits[0], atol=1e-12)
        assert not torch.allclose(one.logits[1], other.logits[1], atol=1e-3)
        grads = torch.autograd.grad(one.loss, list(model.parameters()), allow_unused=True)
        assert all(g is None or g.isfinite().all() for g in grads)


def test_what_cannot_be_used_is_refused() -> None:
    with pytest.raises(UsageError, match="width is 32, that of the heads 64"):
        adapters.use_scheme(t5(d_kv=16), "sinusoidal")
    adapters.use_scheme(t5(d_kv=16), "rope")
    with pytest.raises(UsageError, match=r"unknown kind of model[\s\S]*llama, t5"):
        adapters.use_scheme(torch.nn.Linear(2, 2), "rope")
    model = llama()
    encoding = adapters.use_scheme(model, "orthogonal-tree")
    with pytest.raises(UsageError, match=r"positions of the tokens are missing[\s\S]*encoding.at\(positions\)"):
        model(ids(N))
    with encoding.at(torch.ones(1, 3, dtype=torch.int64)), pytest.raises(UsageError, match="3 for 7 tokens"):
        model(ids(N))
    with pytest.raises(UsageError, match="already has a scheme"):
        adapters.use_scheme(model, "rope")
