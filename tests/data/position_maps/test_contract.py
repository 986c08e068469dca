"""What holds for every map: its draws depend on seed, epoch and row alone, and source and target share them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ape_cli.core.errors import UsageError
from ape_cli.core.vocabulary import PAD
from ape_cli.data import position_maps
from ape_cli.data.batches import DecoderOnlyBatch, few_lengths
from ape_cli.data.loader import Dataset
from tests.conftest import write
from tests.data.position_maps.plain import NAMES, batches, drawn, of_rows

BOTH = pytest.mark.parametrize("joined", [False, True], ids=["encoder-decoder", "decoder"])
DRAWS = ("offset", "randomised")
ALONG = [name for name in NAMES if not position_maps.load(name).reads_tokens]


@BOTH
@pytest.mark.parametrize("name", NAMES)
def test_neither_the_batch_nor_padding_nor_processes_matter(words: Dataset, name: str, joined: bool) -> None:
    found = drawn(name, joined=joined)
    for seed in (None, 5):
        expected = of_rows(batches(words, found, 7, seed=seed))
        assert len(expected) == 120
        assert of_rows(batches(words, found, 256, seed=seed)) == expected
        assert of_rows(batches(words, found, 16, seed=seed, padding=few_lengths)) == expected
        shares = [batches(words, found, 16, seed=seed, share=(i, 3)) for i in range(3)]
        assert of_rows([batch for share in shares for batch in share]) == expected
        later = [batch for n in range(8) for batch in batches(words, found, 16, seed=seed, skip=n)[:1]]
        assert of_rows(later) == expected


@BOTH
@pytest.mark.parametrize("name", ALONG)
def test_positions_rise_and_both_sides_share_the_draw(words: Dataset, name: str, joined: bool) -> None:
    """The places of a row keep their order, and have different positions. 0 is for SOS alone."""
    for batch in batches(words, drawn(name, joined=joined)):
        assert isinstance(batch, DecoderOnlyBatch) == joined
        for row, (source, read, both) in of_rows([batch]).items():
            for places in (source, read, *([both] if both and not position_maps.load(name).restarts else [])):
                assert places == sorted(set(places))
            assert min(source) > 0
            if not isinstance(batch, DecoderOnlyBatch):  # the k-th token of the target is where that of the source is
                assert read == [0, *source[: len(read) - 1]]
                continue
            assert both == source + read
            i = batch.row.tolist().index(row)
            padding = batch.positions[min(i, len(batch.positions) - 1)].tolist()[len(both) :]
            assert not any(padding) or name == "plain"
            assert batch.input_indices[i][batch.labels[i] != PAD].tolist() == list(range(len(source), len(both)))


@BOTH
@pytest.mark.parametrize("name", DRAWS)
def test_training_draws_in_each_epoch_and_evaluation_once(words: Dataset, name: str, joined: bool) -> None:
    found = drawn(name, joined=joined)
    first, second = (of_rows(batches(words, found, seed=5, epoch=epoch)) for epoch in (0, 1))
    scored = of_rows(batches(words, found))
    for one, other in ((first, second), (first, scored), (second, scored)):
        assert sum(one[row] != other[row] for row in one) > 100
    assert of_rows(batches(words, found, seed=6, epoch=1)) == second  # the order of the batches is another
    assert of_rows(batches(words, found)) == scored
    assert of_rows(batches(words, drawn(name, joined=joined, seed=12))) != scored
    assert len({tuple(source) for source, _, _ in scored.values()}) > 100  # each row has its own


@pytest.mark.parametrize("name", NAMES)
def test_tags_have_the_positions_of_their_tokens(tmp_path: Path, name: str) -> None:
    data = write(tmp_path / "data", "group-word", length_mean=6, length_std=1)
    for source, read, _ in of_rows(batches(data, drawn(name))).values():
        assert read == source[:-1]  # without EOS
    for source, read, both in of_rows(batches(data, drawn(name, joined=True))).values():
        assert both == source + read
        if position_maps.load(name).restarts:
            assert read == source[:-1]


@BOTH
@pytest.mark.parametrize("name", NAMES)
def test_trees_and_products_along_the_line(trees: Dataset, name: str, joined: bool) -> None:
    """A tree that is read as a line has no EOS. All coordinates along the line have the same position."""
    flat = of_rows(batches(trees, drawn(name, joined=joined), 7, structure="seq"))
    assert flat == of_rows(batches(trees, drawn(name, joined=joined), 256, structure="seq"))
    wide = of_rows(batches(trees, drawn(name, joined=joined), structure="seq*cyclic(4)"))
    for row, parts in flat.items():
        assert [[[at, at] for at in part] for part in parts] == [list(part) for part in wide[row]]


def test_other_coordinates_are_refused(trees: Dataset, grids: Dataset) -> None:
    for data, structure in ((trees, None), (trees, "seq*tree(2)"), (grids, None)):
        with pytest.raises(UsageError, match="the place of a token along the linearisation"):
            batches(data, drawn("offset"), structure=structure)


@pytest.mark.parametrize("name", NAMES)
def test_a_map_says_what_it_is(name: str) -> None:
    found = position_maps.load(name)
    assert found.about
    assert found.source != "not named"
    assert set(found.option_help) == set(position_maps.options(name))


def test_unknown_names_and_options() -> None:
    for call, message in (
        (lambda: position_maps.make("ofset"), r"unknown position map[\s\S]*did you mean 'offset'"),
        (lambda: position_maps.make("offset", maximal=1), r"unknown option[\s\S]*maximum"),
        (lambda: position_maps.make("offset", maximum=0), "bad maximum"),
        (lambda: position_maps.make("randomised", maximum=65_537), "bad maximum"),
        (lambda: position_maps.make("randomised", answer=1001), "bad answer"),
    ):
        with pytest.raises(UsageError, match=message):
            call()
