"""`ape schemes`, `ape attentions`, `ape fields` and `ape check`: their tables, JSON output and exit status."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import pytest
from torch import Tensor

from ape_cli import attention, position
from ape_cli.cli.algebra_output import algebra_rows
from ape_cli.core.errors import UsageError
from ape_cli.evaluation import profiling
from ape_cli.experiment import ExperimentSpec
from ape_cli.position import Context, Side
from ape_cli.position.rope import Rope
from ape_cli.reports import pictures, views
from ape_cli.runs import config
from tests.conftest import ape


def test_schemes_are_compared_by_their_own_properties() -> None:
    lines = {s["scheme"]: s for s in json.loads(ape("schemes", "--json")[0])}
    assert set(lines) == set(position.names())
    # from the survey's comparison and the paper's section 5
    for name, relative, learnable, extrapolation in [
        ("sinusoidal", False, False, "moderate"),
        ("learned", False, True, "poor"),
        ("t5", True, True, "moderate"),
        ("alibi", True, False, "excellent"),
        ("rope", True, False, "good"),
    ]:
        line = lines[name]
        assert (line["relative"], line["learnable"], line["extrapolation"]) == (relative, learnable, extrapolation)
    assert lines["orthogonal"]["structures"] == ["any"]
    assert lines["sinusoidal"]["structures"] == ["seq", "grid(n)"]
    table = ape("schemes")[0]
    assert "seq (grid(n))" in table
    assert all(name in table for name in position.names())


@pytest.mark.parametrize(
    ("command", "field", "names"),
    [("schemes", "scheme", ["rope", "alibi"]), ("attentions", "attention", ["linear", "dot"])],
)
def test_only_what_is_named_is_listed(command: str, field: str, names: list[str]) -> None:
    assert [line[field] for line in json.loads(ape(command, *names, names[0], "--json")[0])] == names
    table = ape(command, names[0])[0]
    assert names[0] in table
    assert names[1] not in table
    assert f"did you mean '{names[0]}'" in ape(command, names[1], f"{names[0]}e", code=2)[1]


def test_only_what_is_named_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def measure(name: str, model: str | None) -> profiling.Cost:
        asked.append((name, model))
        return profiling.Cost(name, "seq", model or "", 12_345, 1.5, 1.25, 1.75)

    monkeypatch.setattr(profiling, "measure", measure)
    table = ape("schemes", "rope", "--measure", "--model", "decoder")[0]
    assert asked == [("rope", "decoder")]
    assert all(cost in table for cost in ("12,345", "1.50", "1.25", "1.75"))


@pytest.mark.parametrize(("command", "package"), [("report", views), ("draw", pictures)])
def test_views_are_listed_with_what_they_show(command: str, package: ModuleType) -> None:
    listed = [line.split(maxsplit=1) for line in ape(command, "--views")[0].splitlines()]
    assert sorted(name for name, _ in listed) == sorted(package.names())
    assert all(about == package.load(name).about for name, about in listed)


def test_what_no_relation_is_known_of_is_not_tested() -> None:
    empty = {
        "representations": [
            {
                "scheme": "mine",
                "structure": "seq",
                "group": "Z",
                "kind": "none",
                "steps": "",
                "law": "relative",
                "holds": True,
                "error": 0,
                "options": {},
            }
        ],
        "special_case_of": [],
    }
    assert algebra_rows(empty) == [["mine", "seq", "Z", "none", "relative", "exact", "not tested"]]


def test_check_prints_the_verdict_first_and_lists_the_rest_only_if_asked() -> None:
    (short,) = ape("check", "none")[0].splitlines()
    every = ape("check", "none", "--all")[0].splitlines()
    assert every[0] == short
    assert any("registered" in line for line in every[1:])


def test_check_prints_an_error_of_several_laws_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(self: Rope, x: Tensor, context: Context, side: Side) -> Tensor:
        if context.positions.max() > 100:
            raise UsageError("too far", got="a long path", fix="walk less")
        return x * 1.0

    monkeypatch.setattr(Rope, "rotate", failing)
    lines = ape("check", "rope", code=1)[0].splitlines()
    (first,) = (
        number for number, line in enumerate(lines) if line.startswith("FAILS: rope on seq, ") and "too far" in line
    )
    assert lines[first].count(",") > 1
    assert lines[first + 1 : first + 3] == ["  got:     a long path", "  fix:     walk less"]


def listed(*words: str) -> dict[str, dict[str, Any]]:
    return {line["field"]: line for line in json.loads(ape("fields", *words, "--json")[0])}


def test_every_field_can_be_set_and_no_other() -> None:
    scheme = "t5"
    fields = listed("--scheme", scheme)

    def resolve(key: str, value: Any) -> config.Config:
        return ExperimentSpec(preset="small", scheme=scheme, set={key: value}).config("sequence")

    run = ExperimentSpec(preset="small", scheme=scheme).config("sequence")
    for key, line in fields.items():
        if line["value"] is not None:
            changed = resolve(key, line["value"])
            if key not in ("decay", *position.options(scheme)):
                assert changed == run, key  # the listed value is the one that a run has
        assert line["meaning"].endswith("."), key
    assert set(type(run).model_fields) - set(fields) == config._FIXED
    with pytest.raises(UsageError, match="unknown setting"):
        resolve("nothing", 1)


def test_every_option_of_ours_has_a_meaning() -> None:
    for package in (position, attention):
        for name in package.names():
            assert set(package.options(name)) == set(package.load(name).option_help), name


def test_values_depend_on_the_scheme_the_preset_and_the_modality() -> None:
    assert listed()["decay"]["value"] is None
    assert listed("--scheme", "orthogonal-tree")["decay"]["value"] == 0.98
    assert "augment" in listed("--images")
    assert "augment" not in listed()
    assert (listed("--preset", "paper")["d_model"]["value"], listed()["d_model"]["value"]) == (512, 128)
    assert listed("--attention", "clustered")["clusters"]["value"] == 16
    assert "no settings for images" in ape("fields", "--images", "--preset", "medium", code=2)[1]
    assert "did you mean 'rope'?" in ape("fields", "--scheme", "RoPE", code=2)[1]
