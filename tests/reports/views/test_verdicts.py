"""Verdicts from a file: values by hand, what the tables show, and invalid files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ape_cli.core import escaping
from ape_cli.core.errors import ApeError, RunError, UsageError
from ape_cli.reports import rendering
from ape_cli.reports.views import Options, verdicts
from ape_cli.runs import filters
from ape_cli.runs.registry import Registry
from tests.conftest import ape
from tests.record.scores import ROOT
from tests.reports.test_aggregation import add

VIEW = verdicts.VerdictView()
HEAD = """
runs = "."
[[verdict]]
table = 1
scheme = "rope"
columns = ["copy"]
"""


def put_verdicts(where: Path, names: list[str], more: str = "") -> None:
    """Writes a verdict on the paper's `rope` on `copy`, with these runs."""
    text = f'verdict = "reproduced"\nsentence = "As it was."\nevidence = {{ copy = {json.dumps(names)} }}\n'
    (where / "verdicts.toml").write_text(HEAD + text + more)


def test_values_by_hand(tmp_path: Path) -> None:
    """The paper has 99.99 ±0.0. Ours are 100.0 and 99.8: mean 99.9, deviation 0.1414."""
    for seed, score in ((1, 1.0), (2, 0.998)):
        add(tmp_path, "rope", score, seed, task="copy", name="copy")
    names = [path.name for path in (tmp_path / "runs").iterdir()]
    put_verdicts(tmp_path, names)
    result, bad = VIEW.read(Registry(tmp_path), Options(against="paper"))
    (line,) = VIEW.frame(result).to_dicts()
    numbers = ("mean", "std", "paper_mean", "paper_std", "difference", "margin")
    expected = (0.999, 0.00141421, 0.9999, 0.0, -0.0009, 0.00282843)
    assert tuple(line[key] for key in numbers) == pytest.approx(expected, abs=1e-8)
    assert (line["seeds"], line["preset"], line["left"], line["evidence"]) == (2, "small", None, " ".join(names))
    first, second, third = VIEW.tables(result)
    shown = {
        (scheme, row): cell for row, cells in first.rows for scheme, cell in zip(first.columns, cells, strict=True)
    }
    assert shown.pop(("rope", "copy")) == "= -0.09"
    assert set(shown.values()) == {None}
    assert first.notes[1:] == ["rope on copy: reproduced. As it was."]
    assert (len(second.rows), len(third.rows), bad) == (8, 2, [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "there are no verdicts here"),
        ("runs = [", "bad verdicts"),
        (HEAD, "bad verdicts"),  # no verdict and no sentence
        (HEAD + 'verdict = "good"\nsentence = ""', "bad verdicts"),
        (HEAD.replace("copy", "tree-copy") + 'verdict = "not run"\nsentence = ""', "the paper has no such cell"),
    ],
)
def test_an_invalid_file(tmp_path: Path, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / "verdicts.toml").write_text(text)
    with pytest.raises(ApeError, match=message):
        VIEW.read(Registry(tmp_path), Options())


def test_verdicts_cannot_be_selected(tmp_path: Path) -> None:
    put_verdicts(tmp_path, [])
    for registry in (Registry(tmp_path).where(filters.make(None, ["copy"], None)), Registry(tmp_path).only(["a"])):
        with pytest.raises(UsageError, match="name their runs"):
            VIEW.read(registry, Options())


def test_a_run_that_is_missing(tmp_path: Path) -> None:
    put_verdicts(tmp_path, ["copy-rope-1-00000000"])
    with pytest.raises(RunError, match="copy-rope-1-00000000"):
        VIEW.read(Registry(tmp_path), Options())


def test_runs_of_two_sizes(tmp_path: Path) -> None:
    for preset in ("small", "medium"):
        add(tmp_path, "rope", 1.0, 1, task="copy", name="copy", preset=preset)
    put_verdicts(tmp_path, [path.name for path in (tmp_path / "runs").iterdir()])
    with pytest.raises(ApeError, match="several presets"):
        VIEW.read(Registry(tmp_path), Options())


def test_three_tables_fit_a_hundred_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each table is in one piece, so its title is there once, without a part."""
    monkeypatch.setenv("COLUMNS", "100")
    out, _ = ape("report", "--against", "paper", "--verdicts", "--results", str(ROOT / "results"))
    lines = out.splitlines()
    assert [line.strip() for line in lines if "of the paper" in line and line.strip().startswith("Table")] == [
        f"Table {number} of the paper" for number in (1, 2, 3)
    ]
    assert max(map(len, lines)) <= 100


def test_markdown_has_every_sentence() -> None:
    result, _ = VIEW.read(Registry(ROOT / "results"), Options())
    text = rendering.text("markdown", VIEW.tables(result))
    assert text.count("### ") == 3
    assert all(escaping.markdown_prose(cell.verdict.sentence) in text for cell in result)
