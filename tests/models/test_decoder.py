"""The decoder-only model: a plain reference, the packing of sequences, and decoding one token at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ape_cli import attention, experiment, position
from ape_cli.core.errors import UsageError
from ape_cli.core.vocabulary import EOS, PAD, SOS
from ape_cli.data.batches import DecoderOnlyBatch
from ape_cli.data.loader import Split, open_dataset
from ape_cli.experiment import ExperimentSpec
from ape_cli.models import factory
from ape_cli.models.decoder import DecoderOnly
from ape_cli.models.transformer import Transformer, forward
from tests.conftest import write
from tests.models.test_reference import CASES, IDS, SOURCE, TARGET, D, H, attend, embedded, feed, norm

SHORT = SOURCE[:2]
# positions of SOURCE, of TARGET after SOURCE, and of TARGET after SHORT
PLACES: dict[str, tuple[list, list, list]] = {
    "seq": ([1, 2, 3, 4, 5], [6, 7, 8, 9], [3, 4, 5, 6]),
    "tree(2)": ([1, 2, 3, 6, 7], [0, 1, 2, 3], [0, 1, 2, 3]),
    "grid(2)": ([[1, 1], [1, 2], [2, 1], [2, 2], [3, 1]], *[[[0, 0], [1, 1], [1, 2], [1, 3]]] * 2),
}


def net(name: str, decay: float = 1.0, kind: str = "dot", **options: Any) -> DecoderOnly:
    generator = torch.Generator().manual_seed(4)
    scheme = position.make(name, D, H, max_size=3, decay=decay, generator=generator, **options)
    sides = scheme.structure.expression != "seq"
    return DecoderOnly(
        scheme,
        ids=IDS,
        d_ff=24,
        layers=3,
        sides=sides,
        dropout=0.0,
        attention_type=attention.make(kind),
        generator=generator,
    ).double()


def reference(made: DecoderOnly, source: list, source_at: list, target: list, target_at: list) -> Tensor:
    """The model with one query and one key at a time, and the sequences of a single row. -> [M, V]"""
    ids, at = [*source, *target], [*source_at, *target_at]
    x = embedded(made, ids, at)
    if made.sides is not None:
        bare = embedded(made, ids, at) - made.embedding[ids] * D**0.5
        side = torch.stack([made.sides[int(n >= len(source))] for n in range(len(ids))])
        x = made.embedding[ids] * D**0.5 + side + bare
    for layer in made.decoder:
        inner = norm(layer.self_norm, x)
        x = x + attend(made, layer.self_attention, inner, inner, at, at, True)
        x = x + feed(layer.ff, norm(layer.ff_norm, x))
    return (norm(made.decoder_norm, x) @ made.embedding.T)[len(source) :]


def packed(rows: list[tuple[list, list, list, list]]) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, positions and the places of the targets of some rows, with padding at the end."""
    most = max(len(row[0]) + len(row[2]) for row in rows)
    ids, at, place = [], [], []
    for source, source_at, target, target_at in rows:
        end = most - len(source) - len(target)
        blank = [0, 0] if isinstance(source_at[0], list) else 0
        ids.append([*source, *target, *[PAD] * end])
        at.append([*source_at, *target_at, *[blank] * end])
        place.append([len(source) + i for i in range(len(target))])
    return torch.tensor(ids), torch.tensor(at), torch.tensor(place)


@torch.no_grad()
@pytest.mark.parametrize(("name", "decay", "options"), [c for c in CASES if not position.load(c[0]).needs_encoder])
def test_the_model_is_the_plain_one(name: str, decay: float, options: dict[str, Any]) -> None:
    """A batch of two rows, one of which is shorter: at once, prefix by prefix, and token by token."""
    made = net(name, decay, **options).eval()
    source_at, target_at, after_short = PLACES[made.scheme.structure.expression]
    rows = [(SOURCE, source_at, TARGET, target_at), (SHORT, source_at[:2], TARGET, after_short)]
    expected = torch.stack([reference(made, *row) for row in rows])
    near = 1e-9 if decay == 1.0 else 1e-6  # the locality bias is float32
    assert torch.allclose(made(*packed(rows)), expected, atol=near)
    blank = [0, 0] if isinstance(source_at[0], list) else 0
    ids = torch.tensor([SOURCE, [*SHORT, PAD, PAD, PAD]])
    at = torch.tensor([source_at, [*source_at[:2], blank, blank, blank]])
    target, places = torch.tensor([TARGET, TARGET]), torch.tensor([target_at, after_short])
    memory, source = made.encode(ids, at, ids != PAD)
    assert torch.allclose(made.decode(target, places, memory, source), expected, atol=near)
    for first in (1, 2):
        past = made.past()
        parts = [made.decode(target[:, :m], places[:, :m], memory, source, past) for m in range(first, 5)]
        assert torch.allclose(torch.cat(parts, dim=1), expected, atol=near)


def joined(folder: Path, **options: Any) -> DecoderOnlyBatch:
    split = open_dataset(folder).split("train")
    assert isinstance(split, Split)
    batch = next(iter(split.batches(64, decoder_only=True, **options)))
    assert isinstance(batch, DecoderOnlyBatch)
    return batch


def test_words_are_packed_without_a_gap(tmp_path: Path) -> None:
    write(tmp_path / "data", "reverse", length_mean=5, length_std=2)
    batch = joined(tmp_path / "data")
    assert batch.positions.tolist() == [list(range(1, batch.ids.shape[1] + 1))]
    for row in range(4):
        source = [i for i in batch.source_ids[row].tolist() if i != PAD]
        target = [i for i in batch.labels[row].tolist() if i != PAD]
        whole = [*source, SOS, *target[:-1]]
        assert source[-1] == target[-1] == EOS
        assert batch.ids[row].tolist() == whole + [PAD] * (batch.ids.shape[1] - len(whole))
        for m in range(len(target)):
            place = int(batch.input_indices[row, m])
            assert place == len(source) + m
            assert int(batch.input_positions[row, m]) == place + 1  # the sequence continues
    assert len({len([i for i in ids if i]) for ids in batch.ids.tolist()}) > 1


@pytest.mark.parametrize("structure", [None, "seq", "seq*tree(2)"])
def test_trees_keep_their_places_and_their_line_continues(tmp_path: Path, structure: str | None) -> None:
    write(tmp_path / "data", "tree-copy", depth_mean=2, depth_std=1)
    batch = joined(tmp_path / "data", structure=structure)
    for row in range(4):
        count = int(batch.source_mask[row].sum())
        heap = batch.label_positions[row, :count].tolist()
        line, tree = list(range(1, 2 * count + 1)), [*heap, 0, *heap[:-1]]
        expected = {None: tree, "seq": line, "seq*tree(2)": [list(pair) for pair in zip(line, tree, strict=True)]}
        at = batch.positions[min(row, len(batch.positions) - 1), : 2 * count]
        assert at.tolist() == expected[structure]


@torch.no_grad()
def test_shares_are_padded_alike(tmp_path: Path) -> None:
    """Two processes have the shapes of the whole batch, and its scores."""
    write(tmp_path / "data", "reverse", length_mean=5, length_std=2)
    whole = joined(tmp_path / "data")
    parts = [joined(tmp_path / "data", share=(i, 2)) for i in range(2)]
    made = net("rope", structure="seq")
    made.embedding.data = torch.randn(30, D, dtype=torch.float64)
    scores = forward(made, whole, "fp32")
    for i, part in enumerate(parts):
        assert part.ids.shape[1] == whole.ids.shape[1]
        assert torch.allclose(forward(made, part, "fp32"), scores[i::2], atol=1e-12)


def test_a_configuration_decides_the_model(tmp_path: Path) -> None:
    """Layers of both stacks, sides unless positions follow the line, sizes of both together, and names of runs."""
    words, trees = write(tmp_path / "words", "reverse"), write(tmp_path / "trees", "tree-copy")
    for data, scheme, structure, sides in (
        (words, "none", None, False),
        (trees, "rope", None, False),
        (trees, "orthogonal-tree", None, True),
        (trees, "orthogonal", "seq*tree(2)", True),
    ):
        chosen = ExperimentSpec(
            preset="tiny",
            scheme=scheme,
            structure=structure,
            model="decoder",
            set={"encoder_layers": 1, "decoder_layers": 2, "dropout": 0.25},
        ).config("sequence")
        made = factory.of_experiment(experiment.of(chosen, data))
        assert isinstance(made, DecoderOnly)
        assert len(made.decoder) == 3
        assert made.dropout.p == made.decoder[2].dropout.p == made.decoder[2].ff.dropout == 0.25
        assert (made.sides is not None) == sides
        assert made.sides is None or 0.7 < float(made.sides.detach().std()) < 1.3  # as large as scaled embeddings
    with pytest.raises(UsageError, match="bad value of model"):
        ExperimentSpec(preset="tiny", scheme="rope", model="encoder").config("sequence")
    with pytest.raises(UsageError, match="no target sequence"):
        ExperimentSpec(preset="tiny", scheme="rope", model="decoder").config("image")


def test_schemes_of_causal_attention_are_refused_elsewhere(tmp_path: Path) -> None:
    """Before anything is written, and by the modules themselves."""
    data = write(tmp_path / "words", "reverse")
    with pytest.raises(UsageError, match="xpos acts only in causal attention: scores of keys ahead") as caught:
        experiment.complete(ExperimentSpec(preset="tiny", scheme="xpos").config("sequence"), data)
    assert "model=decoder" in str(caught.value.fix)
    scheme = position.make("xpos", D, H)
    for layers in (0, 1):
        with pytest.raises(UsageError, match="acts only in causal attention"):
            Transformer(scheme, ids=IDS, d_ff=8, encoder_layers=layers, decoder_layers=1, dropout=0.0)
