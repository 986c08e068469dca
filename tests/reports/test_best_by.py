"""`--best-by validation`: settings are chosen by validation scores, and nothing else decides."""

from __future__ import annotations

import itertools
import textwrap
from pathlib import Path
from typing import Any

import pytest

from ape_cli.core.errors import ApeError, left_out
from ape_cli.reports import document
from ape_cli.reports.tables import Cell, captions, rules
from ape_cli.reports.views import Options, load
from ape_cli.runs.registry import open_registry
from ape_cli.runs.run import write_history
from tests.registered import edit, fingerprint_of, put_evaluation, vouch
from tests.reports.test_aggregation import add
from tests.reports.views import test_by_size

HIGH = {"lr_peak": 0.003}


def trial(where: Path, scheme: str, seed: int, validation: float, test: float, **of: Any) -> Path:
    """Registers a run with a validation score, which its history has, and a test score."""
    folder = add(where, scheme, test, seed, **of)
    scores = {"validation_token_accuracy": validation, "validation_loss": 1.0}
    write_history(folder / "history.parquet", [{"step": 1, **scores}, {"step": 2, **dict.fromkeys(scores, 0.0)}])
    vouch(folder)
    return folder


def result_of(where: Path, view: str = "scores", **options: Any) -> document.Document:
    chosen = Options(**{"best_by": "validation", **options})
    return document.read(open_registry(str(where)), load(view), chosen)


def lines(where: Path, view: str = "scores", **options: Any) -> list[dict[str, Any]]:
    selected = result_of(where, view, **options).selected
    return selected.view.frame(selected.result).to_dicts()


def settings(where: Path) -> dict[tuple[str, str], str]:
    return {(line["task"], line["scheme"]): line["setting"] for line in lines(where)}


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """On `reverse` validation prefers the high rate for `rope` and the preset's for `alibi`; tests say the opposite."""
    for seed in (1, 2):
        trial(tmp_path, "rope", seed, 0.5, 0.9)
        trial(tmp_path, "rope", seed, 0.6, 0.8, variant=HIGH)
        trial(tmp_path, "alibi", seed, 0.6, 0.3)
        trial(tmp_path, "alibi", seed, 0.5, 0.4, variant=HIGH)
    return tmp_path


def test_a_row_for_each_scheme_with_what_the_choice_moved(sweep: Path) -> None:
    rope, alibi = sorted(lines(sweep), key=lambda line: line["scheme"], reverse=True)
    assert (rope["setting"], rope["trials"], rope["mean"], rope["moved"]) == (
        "lr_peak=0.003",
        2,
        0.8,
        pytest.approx(-0.1),
    )
    assert (alibi["setting"], alibi["mean"], alibi["moved"]) == ("lr_peak=0.002", 0.3, 0.0)
    (table,) = result_of(sweep).tables
    assert {row for row, _ in table.rows} == {"rope", "alibi"}
    chosen = "reverse: lr_peak=0.003 for rope, lr_peak=0.002 for alibi"
    assert "Validation chose lr_peak=0.003 in 1 cell, lr_peak=0.002 in 1 cell." in table.notes
    assert "Validation chose from 2 settings, by the mean over 2 seeds." in table.rules
    assert f"Chosen settings: {chosen}." in table.rules


@pytest.mark.parametrize(
    ("schemes", "told"),
    [
        ({"rope": 0.6, "alibi": 0.6}, "lr_peak=0.003 in all rows"),
        (dict.fromkeys(("rope", "alibi", "none"), 0.6) | {"t5": 0.4, "learned": 0.4}, None),
    ],
)
def test_a_note_is_short(tmp_path: Path, schemes: dict[str, float], told: str | None) -> None:
    """One setting for all rows is said once. Of many rows, the note counts the settings and a rule lists them."""
    for scheme, high in schemes.items():
        trial(tmp_path, scheme, 1, 0.5, 0.9)
        trial(tmp_path, scheme, 1, high, 0.8, variant=HIGH)
    (table,) = result_of(tmp_path).tables
    counted = "lr_peak=0.003 in 3 cells, lr_peak=0.002 in 2 cells"
    assert f"Validation chose {told or counted}." in table.notes
    listed = [rule for rule in table.rules if rule.startswith("Chosen settings: reverse: lr_peak=0.00")]
    assert len(listed) == (told is None)


def test_altered_test_scores_choose_the_same(sweep: Path) -> None:
    before = settings(sweep)
    for number, path in enumerate(sorted(sweep.glob("runs/*/eval/*.json"))):
        edit(path, lambda of, score=number / 100: of["overall"].update(token_accuracy=score))
    assert settings(sweep) == before


def test_a_seed_that_only_one_setting_has_does_not_choose(sweep: Path) -> None:
    """It counts for the score, though: a tuned setting is trained with more seeds."""
    trial(sweep, "rope", 3, 1.0, 1.0)
    trial(sweep, "rope", 4, 0.0, 0.5, variant=HIGH)
    rope = next(line for line in lines(sweep) if line["scheme"] == "rope")
    assert (rope["setting"], rope["seeds"]) == ("lr_peak=0.003", 3)
    assert rope["moved"] == pytest.approx(-0.1)  # over the two seeds that both have


def test_a_chosen_model_of_another_size_has_no_difference_from_the_paper(tmp_path: Path) -> None:
    """The row is named by its scheme alone, beside the published number. Settings of training keep the paper's size."""
    whole: Any = {"preset": "paper", "full_size": True}
    for scheme, setting in (("rope", {"d_model": 64}), ("sinusoidal", HIGH)):
        trial(tmp_path, scheme, 1, 0.5, 0.9, **whole)
        trial(tmp_path, scheme, 1, 0.6, 0.8, variant=setting, **whole)
    found = {line["scheme"]: line for line in lines(tmp_path, against="paper")}
    assert {scheme: line["paper_size"] for scheme, line in found.items()} == {"rope": False, "sinusoidal": True}
    assert found["rope"]["paper_mean"] == pytest.approx(0.97)
    assert found["rope"]["paper_difference"] is None
    assert found["sinusoidal"]["paper_difference"] is not None
    (table,) = result_of(tmp_path, against="paper").tables
    assert any("some of ours differ in size" in note for note in table.notes)


def test_without_the_preset_s_setting_nothing_is_said_of_what_moved(tmp_path: Path) -> None:
    trial(tmp_path, "rope", 1, 0.5, 0.5, variant={"lr_peak": 0.001})
    trial(tmp_path, "rope", 1, 0.6, 0.5, variant=HIGH)
    trial(tmp_path, "none", 1, 0.6, 0.5)
    found = {line["scheme"]: (line["trials"], line["moved"]) for line in lines(tmp_path)}
    assert found == {"rope": (2, None), "none": (1, 0.0)}
    (table,) = result_of(tmp_path).tables
    assert any("not tuned equally" in note for note in table.notes)


def test_settings_without_a_common_seed_are_left_out(tmp_path: Path) -> None:
    trial(tmp_path, "rope", 1, 0.5, 0.5)
    trial(tmp_path, "rope", 2, 0.6, 0.5, variant=HIGH)
    trial(tmp_path, "none", 1, 0.5, 0.5)
    with left_out() as bad:
        found = document.read(open_registry(str(tmp_path)), load("scores"), Options(best_by="validation"))
    assert [line["scheme"] for line in found.selected.view.frame(found.selected.result).to_dicts()] == ["none"]
    assert bad == [
        "rope on reverse, preset small: its settings have no seed in common (the preset: 1; lr_peak=0.003: 2)"
    ]
    assert found.notes == ["Left out, because they cannot be read or compared: rope on reverse, preset small."]


def test_settings_that_all_trials_have_name_the_row(tmp_path: Path) -> None:
    """A tuned sweep of a smaller model: its width is no choice, and its default is the preset's rate at this width."""
    small = {"d_model": 64}
    for seed in (1, 2):
        trial(tmp_path, "rope", seed, 0.5, 0.9, variant=small)
        trial(tmp_path, "rope", seed, 0.6, 0.8, variant=small | HIGH)
        trial(tmp_path, "none", seed, 0.6, 0.5, variant=small)
    rope, none = sorted(lines(tmp_path), key=lambda line: line["scheme"], reverse=True)
    assert (rope["setting"], rope["moved"]) == ("lr_peak=0.003", pytest.approx(-0.1))
    assert (none["setting"], none["trials"], none["moved"]) == ("", 1, 0.0)
    (table,) = result_of(tmp_path).tables
    assert "Preset small with d_model=64." in table.notes
    assert any("the only setting for none" in rule for rule in table.rules)


def test_a_chosen_setting_without_scores_is_named(sweep: Path) -> None:
    """And not replaced by another one that has them."""
    trial(sweep, "none", 1, 0.5, 0.5)
    for path in sweep.glob("runs/reverse-none-*/eval/*.json"):
        path.unlink()
    for folder in sweep.glob("runs/reverse-none-*"):
        vouch(folder)
    with left_out() as bad:
        found = document.read(open_registry(str(sweep)), load("scores"), Options(best_by="validation"))
    assert [row for row, _ in found.tables[0].rows] == ["rope", "alibi"]
    assert bad == [
        "none on reverse, preset small: the chosen setting (the only one) has no teacher scores on its test split"
    ]


def test_pairs_and_learning_curves_are_of_the_chosen_runs(sweep: Path) -> None:
    (pair,) = lines(sweep, "paired", compare=("rope", "alibi"))
    assert (pair["mean_a"], pair["setting_a"], pair["mean_b"], pair["setting_b"]) == (
        pytest.approx(0.8),
        "lr_peak=0.003",
        pytest.approx(0.3),
        "lr_peak=0.002",
    )
    at_end = {(x["scheme"], x["setting"], x["mean"]) for x in lines(sweep, "by-epoch") if x["measure"] == "validation"}
    assert at_end == {("rope", "lr_peak=0.003", 0.6), ("alibi", "lr_peak=0.002", 0.6)}


def test_each_change_is_on_the_split_of_its_table(tmp_path: Path) -> None:
    """The choice raises the validation score by 10 points and lowers the test score by as many."""
    for seed in (1, 2):
        trial(tmp_path, "rope", seed, 0.5, 0.9)
        trial(tmp_path, "rope", seed, 0.6, 0.8, variant=HIGH)
    moved = {line["split"]: line["moved"] for view in ("by-epoch", "scores") for line in lines(tmp_path, view)}
    assert moved == {"validation": pytest.approx(0.1), "test": pytest.approx(-0.1)}


def test_validation_scores_are_those_that_training_stored(sweep: Path) -> None:
    (table,) = result_of(sweep, split="validation").tables
    assert {row: [c.mean for c in cells if isinstance(c, Cell)] for row, cells in table.rows} == {
        "rope": [pytest.approx(0.6)],
        "alibi": [pytest.approx(0.6)],
    }
    with pytest.raises(ApeError, match="ape eval --split validation") as error:
        result_of(sweep, split="validation", metric="exact_match")
    assert "training stores only" in str(error.value)


def test_an_evaluation_takes_the_place_of_stored_scores_on_its_own_data_alone(tmp_path: Path) -> None:
    overall = {"token_accuracy": 0.75, "exact_match": 0.5, "rows": 1_000, "tokens": 10_000}
    for scheme, fingerprint in (("rope", "f" * 64), ("alibi", "a" * 64)):
        folder = trial(tmp_path, scheme, 1, 0.6, 0.9)
        evaluation = {"dataset": "data", "fingerprint": fingerprint, "split": "validation", "decode": "teacher"}
        put_evaluation(folder, evaluation | {"overall": overall})
    found = lines(tmp_path, split="validation", best_by=None, own=True)
    assert {line["scheme"]: (line["mean"], line["seeds"]) for line in found} == {"rope": (0.75, 1), "alibi": (0.6, 1)}


@pytest.mark.parametrize("best_by", [None, "validation"])
@pytest.mark.parametrize("view", ["scores", "by-size", "by-epoch", "generalisation"])
def test_a_caption_has_at_most_three_lines_of_80_characters(tmp_path: Path, view: str, best_by: str | None) -> None:
    """All runs share many settings, and each scheme has several learning rates. What all tables share is said once."""
    shared = {"d_model": 64, "d_ff": 256, "batch_size": 32, "validate_every_steps": 500, "weight_decay": 0.01}
    for task, scheme, rate in itertools.product(("copy", "reverse"), ("rope", "alibi", "none"), (0.001, 0.003, 0.01)):
        variant = shared | {"lr_peak": rate}
        sizes, own = {"a": {5: (40, 40)}, "b": {8: (30, 40)}}, fingerprint_of("a")
        folder = test_by_size.put(tmp_path, scheme, sizes, task=task, name=task, fingerprint=own, variant=variant)
        scores = {"validation_token_accuracy": rate, "validation_loss": 1.0}
        write_history(folder / "history.parquet", [{"step": 1, **scores}, {"step": 2, **scores}])
        vouch(folder)
    registry = open_registry(str(tmp_path))
    made = document.read(registry, load(view), Options(best_by=best_by)).tables
    each, of_all = captions(made)
    assert all(len(textwrap.wrap(text, 80)) <= 3 for text in (*each, of_all))
    assert "Preset small with 5 changes." in (of_all or each[0])
    assert "Preset small with 5 changes." not in each[0] * (len(each) > 1)
    assert any(rule.startswith("Changes to preset small: batch_size=32, d_ff=256") for rule in rules(made))
