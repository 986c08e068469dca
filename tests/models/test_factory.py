"""The structure as which a scheme reads data, and its effect on the configuration, the model and the tables."""

from __future__ import annotations

import pytest
import torch

from ape_cli import position
from ape_cli.core.errors import DataError, UsageError
from ape_cli.data.loader import Dataset
from ape_cli.models import factory
from ape_cli.runs import config
from ape_cli.runs.config import Config
from ape_cli.runs.registry import open_registry
from ape_cli.storage.paths import StoragePath
from ape_cli.structure import Cyclic, Grid, Seq, Structure, Tree, parse_structure


def wanted(scheme: str, structure: str | None = None, **settings: object) -> Config:
    return config.resolve("tiny", scheme, position.options(scheme), structure=structure, settings=settings)


def grid(axes: int) -> Grid:
    return Grid((Seq(),) * axes)


@pytest.mark.parametrize("own", [Seq(), Tree(2), grid(2), Cyclic(6)])
def test_a_flat_scheme_reads_everything_along_its_linearisation(own: Structure) -> None:
    assert factory.reading("sinusoidal", own) == Seq()


def test_a_structure_that_is_asked_for_is_read() -> None:
    assert factory.reading("sinusoidal", grid(2), grid(2)) == grid(2)
    assert factory.reading("sinusoidal", grid(3), parse_structure("seq*seq*seq")) == grid(3)
    with pytest.raises(DataError, match="no positions of structure grid"):
        factory.reading("sinusoidal", Tree(2), grid(2))
    with pytest.raises(UsageError, match="cannot read positions of this structure"):
        factory.reading("sinusoidal", Tree(2), Tree(2))


@pytest.mark.parametrize("scheme", position.names())
def test_a_scheme_that_is_not_flat_reads_what_the_data_is(scheme: str) -> None:
    found = position.load(scheme)
    if found.flat:
        assert found.reads(Seq())
    elif "grid(n)" in found.structures or "any" in found.structures:
        assert factory.reading(scheme, grid(2)) == grid(2)


def test_a_run_keeps_its_name_unless_a_structure_is_asked_for(grids: Dataset, tmp_path: StoragePath) -> None:
    runs, variants = open_registry(tmp_path), []
    names = []
    for structure in (None, "seq", "grid(2)"):
        settled = factory.settle(wanted("sinusoidal", structure), grids)
        names.append(runs.place(settled, grids).name)
        variants.append(factory.variant(settled, grids))
    assert names[0] == names[1] != names[2]
    assert variants == [{}, {}, {"structure": "grid(2)"}]


def test_a_distance_is_told_in_names_and_tables(grids: Dataset, tmp_path: StoragePath) -> None:
    runs, plain = open_registry(tmp_path), factory.settle(wanted("orthogonal-grid"), grids)
    other = factory.settle(wanted("orthogonal-grid", distance="euclidean"), grids)
    assert runs.place(plain, grids).name != runs.place(other, grids).name
    assert (factory.variant(plain, grids), factory.variant(other, grids)) == ({}, {"distance": "euclidean"})
    assert factory.build(other, grids.structure, grids.ids).scheme.metric == "euclidean"


def test_a_model_gets_rows_and_columns(grids: Dataset) -> None:
    """Check the path from stored positions, counted from 1, to the vectors that are added. SOS is at (0, 0)."""
    settled = factory.settle(wanted("sinusoidal", "grid(2)"), grids)
    model = factory.build(settled, grids.structure, grids.ids)
    read = factory.reading("sinusoidal", grids.structure, settled.structure)
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
    first = model.scheme.context(batch.input_positions).state[:, 0]
    assert torch.equal(first, torch.tensor([0.0, 1.0]).repeat(16).expand_as(first).double())
