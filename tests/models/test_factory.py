"""The structure as which a scheme reads data, and its effect on the configuration, the model and the tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from ape_cli import attention, experiment, position
from ape_cli.core.errors import DataError, UsageError
from ape_cli.data.loader import Dataset
from ape_cli.experiment import ExperimentSpec
from ape_cli.experiment.reading import structure_for
from ape_cli.models import factory
from ape_cli.runs.config import Config
from ape_cli.runs.registry import open_registry
from ape_cli.storage.paths import StoragePath
from ape_cli.structure import Grid, Seq, Tree, parse_structure
from tests.conftest import write


def wanted(scheme: str, structure: str | None = None, **settings: object) -> Config:
    return ExperimentSpec(preset="tiny", scheme=scheme, structure=structure, set=settings).config("sequence")


def grid(axes: int) -> Grid:
    return Grid((Seq(),) * axes)


def test_settings_of_layers_reach_the_model() -> None:
    """Where the stacks differ. A decoder-only model has the blocks of the encoder in its first layers."""
    settings: dict[str, Any] = {"encoder_layers": 1, "decoder_layers": 2, "d_ff": 24, "d_ff_decoder": 40}
    settings |= {"positions_scale": 0.5, "dropout": 0.25, "dropout_places": "branches"}
    for kind, depths in (("encoder-decoder", (1, 2)), ("decoder", (0, 3))):
        spec = ExperimentSpec(preset="tiny", scheme="sinusoidal", model=kind, set=settings)
        model: Any = factory.build(spec.config("sequence"), Seq(), ids=9)
        layers = [*getattr(model, "encoder", []), *model.decoder]
        assert (len(layers) - len(model.decoder), len(model.decoder)) == depths
        assert [layer.ff.inner.out_features for layer in layers] == [24, 40, 40]
        assert [(layer.dropout.p, layer.ff.dropout) for layer in layers] == [(0.25, 0.0)] * 3
        assert (model.dropout.p, model.positions_scale) == (0.0, 0.5)
    learned: Any = factory.build(wanted("rope", learned=True), Seq(), ids=9)
    assert len([*learned.scheme.parameters()]) == 1


def test_a_structure_that_is_asked_for_is_read() -> None:
    assert structure_for("sinusoidal", grid(2), grid(2)) == grid(2)
    assert structure_for("sinusoidal", grid(3), parse_structure("seq*seq*seq")) == grid(3)
    with pytest.raises(DataError, match="no positions of structure grid"):
        structure_for("sinusoidal", Tree(2), grid(2))
    with pytest.raises(UsageError, match="cannot read positions of this structure"):
        structure_for("sinusoidal", Tree(2), Tree(2))


@pytest.mark.parametrize("structure", [None, "seq"])
def test_bounded_schemes_on_sequences_are_sized_in_tokens(tmp_path: Path, structure: str | None) -> None:
    """The size of a sum is a number of digits, but positions count tokens: 2 * 9 digits, a plus and an EOS."""
    data = write(tmp_path / "sums", "addition", digits_mean=9, digits_std=0)
    assert experiment.complete(wanted("relative", structure), data).max_size == 20


def test_the_longer_of_source_and_target_counts(tmp_path: Path) -> None:
    """A word of 5 symbols that is repeated twice: the decoder reads SOS at 0 and 10 symbols."""
    data = write(tmp_path / "words", "repeat", length_mean=5, length_std=0)
    assert experiment.complete(wanted("relative"), data).max_size == 10


def test_a_run_keeps_its_name_unless_a_structure_is_asked_for(grids: Dataset, tmp_path: StoragePath) -> None:
    runs, variants = open_registry(tmp_path), []
    names = []
    for structure in (None, "seq", "grid(2)"):
        settled = experiment.complete(wanted("sinusoidal", structure), grids)
        names.append(runs.run_for(settled, grids).name)
        variants.append(experiment.of(settled, grids).variant)
    assert names[0] == names[1] != names[2]
    assert variants == [{}, {}, {"structure": "grid(2)"}]


def test_a_model_gets_rows_and_columns(grids: Dataset) -> None:
    """Check the path from stored positions, counted from 1, to the vectors that are added. SOS is at (0, 0)."""
    settled = experiment.complete(wanted("sinusoidal", "grid(2)"), grids)
    model = factory.build(settled, grids.structure, grids.ids)
    read = structure_for("sinusoidal", grids.structure, settled.structure)
    batch = next(grids.split("train").batches(8, structure=read))
    at, mask = batch.source_positions, batch.source_mask
    rows, columns = at[..., 0][mask], at[..., 1][mask]
    assert rows.min() == columns.min() == 1
    assert not torch.equal(rows, columns)
    context = model.scheme.context(at)
    added = model.scheme.embed(torch.zeros(*mask.shape, settled.d_model), context)[mask]  # [T, D]
    axis = position.make("sinusoidal", settled.d_model // 2, heads=1)
    for coordinate, share in ((rows, added[:, :16]), (columns, added[:, 16:])):
        expected = axis.embed(torch.zeros(1, len(coordinate), 16), axis.context(coordinate[None]))[0]
        assert torch.equal(share, expected)
    start = model.scheme.context(batch.input_positions[:, :1])
    first = model.scheme.embed(torch.zeros(1, 1, settled.d_model), start)
    assert torch.equal(first, torch.tensor([0.0, 1.0]).repeat(16).expand_as(first))


def test_a_scheme_reads_a_product_or_a_factor_of_it() -> None:
    own = parse_structure("seq*tree(2)")
    for scheme, structure, expected in [
        ("orthogonal", None, "seq*tree(2)"),
        ("orthogonal-tree", None, "tree(2)"),
        ("tree", None, "tree(2)"),
        ("rope", None, "line"),
        ("orthogonal-seq", None, "line"),
        ("orthogonal-seq", "seq", "seq"),  # the place of the tree, which all of its nodes share
        ("orthogonal-seq", "line", "line"),
        ("orthogonal", "line*tree(2)", "line*tree(2)"),
    ]:
        wanted_structure = None if structure is None else parse_structure(structure)
        assert structure_for(scheme, own, wanted_structure).expression == expected, (scheme, structure)
    assert structure_for("orthogonal-grid", parse_structure("grid(2)*seq")) == grid(2)
    assert structure_for("rope", Tree(2), parse_structure("line")) == Seq()  # one name for one reading
    with pytest.raises(DataError, match="the factors of seq\\*tree\\(2\\)"):
        structure_for("orthogonal", own, Tree(3))


@pytest.fixture(scope="module")
def forests(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    options = {"trees_mean": 3.0, "depth_mean": 2.0}
    return write(tmp_path_factory.mktemp("forests") / "data", "forest-reverse", "depth", **options)


def test_bounded_schemes_get_the_size_of_what_they_read(forests: Dataset) -> None:
    rows = forests.split("train").table().to_pylist()
    at = [place for row in rows for place in row["source_positions"]]
    for scheme, structure, size in [
        ("learned", None, max(len(row["source_ids"]) for row in rows)),  # along the line
        ("learned", "seq", 1 + max(tree for tree, _ in at)),  # the number of trees, which are stored from 0 on
        ("tree", None, max(node.bit_length() - 1 for _, node in at)),  # the depth of the deepest tree
    ]:
        assert experiment.complete(wanted(scheme, structure), forests).max_size == size, (scheme, structure)
    assert experiment.complete(wanted("learned", "seq", max_size=9), forests).max_size == 9


def test_random_parts_of_an_attention_follow_from_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind has no generator. It draws from the global one, which has a state of the configuration's seed."""
    chosen = wanted("rope").model_copy(update={"decay": 1.0, "kind": "sequence"})
    drawn = []
    right = attention.make

    def make(*given: Any, **options: Any) -> attention.AttentionType:
        drawn.append(torch.rand(1).item())
        return right(*given, **options)

    monkeypatch.setattr(attention, "make", make)
    for seed in (1, 1, 2):
        torch.rand(1)
        factory.build(chosen.model_copy(update={"seed": seed}), Seq(), ids=9)
    first, same, other = drawn
    assert first == same
    assert first != other
