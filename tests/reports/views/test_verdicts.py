"""Verdicts from a file: values by hand, what the tables show, and invalid files."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from ape_cli.core.errors import ApeError, UsageError, left_out
from ape_cli.reports import published
from ape_cli.reports.views import Options, verdicts
from ape_cli.reports.views.verdicts import Judged, RunScores
from ape_cli.runs import filters
from ape_cli.runs.registry import Registry
from tests.reports.test_aggregation import add

VIEW = verdicts.VerdictView()
ENTRY = """
[[verdict]]
scheme = "rope"
columns = ["copy"]
verdict = "reproduced"
sentence = "As it was."
"""
SIZE = {"task": "copy", "name": "copy", "preset": "medium", "full_size": True}


def read(where: Path, against: str = "paper") -> list[Judged]:
    return VIEW.read(Registry(where), Options(against=against))


def test_values_by_hand(tmp_path: Path) -> None:
    """The preprint has 99.99 ±0.0. Ours are 100.0 and 99.8: mean 99.9, deviation 0.1414; half of a digit is 0.005."""
    for seed, score in ((1, 1.0), (2, 0.998)):
        add(tmp_path, "rope", score, seed, **SIZE)
    names = sorted(path.name for path in (tmp_path / "runs").iterdir())
    add(tmp_path, "rope", 0.5, **SIZE | {"preset": "small"})
    for seed in (1, 2, 3):  # more runs, but not on the preset's data
        other = {"full_size": False, "given": {"length_mean": 9}, "fingerprint": "a" * 64}
        add(tmp_path, "rope", 0.5, seed, **SIZE | other)
    add(tmp_path, "rope", 0.5, **SIZE, variant={"decay": 0.5})
    (tmp_path / "verdicts-paper.toml").write_text(ENTRY)
    with left_out() as bad:
        result = read(tmp_path)
    (line,) = (line for line in VIEW.frame(result).to_dicts() if line["preset"])
    numbers = ("mean", "std", "paper_mean", "paper_spread", "difference", "margin")
    expected = (0.999, 0.00141421, 0.9999, 0.0, -0.0009, 0.00287843)
    assert tuple(line[key] for key in numbers) == pytest.approx(expected, abs=1e-8)
    assert (line["seeds"], line["preset"], line["left"], line["evidence"]) == (2, "medium", None, " ".join(names))
    first, second, third, count = VIEW.tables(result)
    shown = {
        (scheme, row): cell for row, cells in first.rows for scheme, cell in zip(first.columns, cells, strict=True)
    }
    assert shown.pop(("rope", "copy")) == "= -0.09"
    assert set(shown.values()) == {"—"}
    assert first.rules[1:] == ["rope on copy: reproduced. As it was."]
    assert (len(second.rows), len(third.rows), bad) == (8, 2, [])
    assert count.rows[0] == ("Table 1 of the preprint", ["1", "0", "0", "11"])


def test_a_source_of_one_s_own_needs_no_file_of_verdicts(tmp_path: Path) -> None:
    """Without presets in the source, the runs of the largest preset count, on the data that most of them have."""
    source = tmp_path / "doe.toml"
    numbers = '["copy", "", "rope", "perplexity", 2.0, 0.1], ["copy", "", "alibi", "exact_match", 0.5]'
    source.write_text(f'title = "Doe"\n[[table]]\nname = "Table 1"\nnumbers = [{numbers}]\n')
    for seed in (1, 2):
        add(tmp_path, "rope", 1.0, seed, task="copy", name="copy")
    overall = {run.name: run.evaluations()[0][0]["overall"] for run in Registry(tmp_path)}
    add(tmp_path, "rope", 0.5, task="copy", name="copy-other", fingerprint="0" * 64)
    result = read(tmp_path, str(source))
    (rope, alibi) = result
    assert rope.ours is not None
    expected = {name: math.exp(of["cross_entropy"]) for name, of in overall.items()}
    assert rope.ours.by_run == pytest.approx(expected)
    assert (alibi.follows, verdicts.mark(alibi)) == ("not run", "—")
    (table, _) = VIEW.tables(result)
    assert [row for row, _ in table.rows] == ["copy, perplexity", "copy, exact_match"]
    assert "Our perplexity divided by" in " ".join(table.notes)
    assert "Our mean exact match minus the published one, in points." in " ".join(table.notes)
    ratio = next(iter(expected.values())) / 2
    assert verdicts.mark(rope).endswith(f"×{ratio:.2f}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ENTRY.replace("sentence", "sentences"), "bad verdicts"),
        (ENTRY.replace("copy", "copies"), "a cell that the preprint"),
        (ENTRY + 'cause = { repeat = ["copy-rope-1-00000000"] }', "or the entry does not have"),
        (ENTRY + 'cause = { copy = ["copy-rope-1-00000000"] }', "a run of the verdicts is missing"),
    ],
)
def test_an_invalid_file(tmp_path: Path, text: str, message: str) -> None:
    add(tmp_path, "rope", 1.0, **SIZE)
    (tmp_path / "verdicts-paper.toml").write_text(text)
    with pytest.raises(ApeError, match=message):
        read(tmp_path)


def test_runs_cannot_be_selected(tmp_path: Path) -> None:
    for registry in (Registry(tmp_path).where(filters.make(None, ["copy"], None)), Registry(tmp_path).only(["a"])):
        with pytest.raises(UsageError, match="about all runs of a results folder"):
            VIEW.read(registry, Options(against="paper"))


def test_the_sentence_on_another_verdict_is_left_out(tmp_path: Path) -> None:
    add(tmp_path, "rope", 0.5, **SIZE)
    (tmp_path / "verdicts-paper.toml").write_text(ENTRY)
    result = read(tmp_path)
    assert VIEW.tables(result)[0].rules[1:] == []


def test_an_infinite_perplexity_differs() -> None:
    number = published.Number("Table 1", "copy", "rope", "perplexity", 1.0, 0.0)
    ours = RunScores("medium", {"a": 1.0, "b": math.inf})
    cell = Judged(number, published.load("neurips"), ours)
    assert (cell.follows, ours.std, verdicts.mark(cell)) == ("differs, cause open", None, "? ×inf")


def test_the_mark_of_the_published_size_is_on_runs_of_that_size(tmp_path: Path) -> None:
    """A row may name its width. Its runs have the preset of the published ones, and another size."""
    source, size = tmp_path / "doe.toml", SIZE | {"preset": "paper"}
    rows = {"rope": {}, "rope (d_model=64)": {"d_model": 64}, "rope (lr_peak=0.01)": {"lr_peak": 0.01}}
    numbers = ", ".join(f'["copy", "", "{row}", "token_accuracy", 0.5]' for row in rows)
    source.write_text(f'title = "Doe"\npresets = ["paper"]\n[[table]]\nname = "Table 1"\nnumbers = [{numbers}]\n')
    for variant in rows.values():
        add(tmp_path, "rope", 0.5, variant=variant, **size)
    result = read(tmp_path, str(source))
    assert [verdicts.mark(cell) for cell in result] == ["= +0.00*", "= +0.00", "= +0.00*"]
    legend = " ".join(VIEW.tables(result)[0].notes)
    assert legend.endswith("*: runs of the published size. All other runs have preset paper.")


def test_runs_on_data_of_the_published_sizes_come_first(tmp_path: Path) -> None:
    """Preset `neurips` draws smaller trees than `paper` and `medium` do."""
    size = {"task": "tree-copy", "name": "tree-copy", "order": "breadth", "full_size": True}
    add(tmp_path, "tree", 0.5, **size | {"given": {"depth_mean": 3}}, preset="paper")  # the sizes of neither
    add(tmp_path, "rope", 0.5, **size, preset="paper")
    (usual,) = (cell for cell in read(tmp_path, "neurips") if cell.ours)
    assert verdicts.mark(usual).endswith("°")
    drawn = {"given": {"depth_mean": 6.5, "redraw": True}, "fingerprint": "a" * 64}
    add(tmp_path, "rope", 0.5, **size | drawn, preset="medium")
    result = read(tmp_path, "neurips")
    (drawn_as_published,) = (cell for cell in result if cell.ours)
    assert drawn_as_published.ours is not None
    assert (drawn_as_published.ours.preset, drawn_as_published.ours.published_data) == ("medium", True)
    assert not any("°" in note for table in VIEW.tables(result) for note in table.notes)


def test_runs_of_two_sizes(tmp_path: Path) -> None:
    for preset in ("small", "medium"):
        add(tmp_path, "rope", 1.0, 1, **SIZE | {"preset": preset})
    names = json.dumps([path.name for path in (tmp_path / "runs").iterdir()])
    (tmp_path / "verdicts-paper.toml").write_text(ENTRY + f"cause = {{ copy = {names} }}")
    with pytest.raises(ApeError, match="several presets"):
        read(tmp_path)
