"""Errors about a field of a TOML file name the file and the line, and their fix is for a file."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ape_cli.cli import app
from ape_cli.core.errors import UsageError
from ape_cli.experiment.experiment_file import in_file
from ape_cli.runs import config
from tests.conftest import ape

EXPERIMENT = 'scheme = "rope"\ntask = "copy"\npreset = "tiny"\n'
SWEEP = 'schemes = ["rope"]\ntasks = ["copy"]\npreset = "tiny"\n'


def told(name: str, text: str, *words: str) -> str:
    """What a command says about a file with an error."""
    Path(name).write_text(text)
    command = ["train", "--config", name] if name == "e.toml" else ["sweep", name]
    done = CliRunner().invoke(app, [*command, "--dry-run", *words])
    assert done.exit_code in (1, 2), text
    return re.sub(r"\n\s*(got|allowed|fix): +", r" | \1 ", done.stderr)


def check(name: str, base: str, cases: dict[str, tuple[int, str]]) -> None:
    for text, (line, part) in cases.items():
        shown = told(name, base + text)
        assert f"error: {name}, line {line}: " in shown, (text, shown)
        assert part in shown, (text, shown)
        assert "--" not in re.sub("`ape .*?`", "", shown), (text, shown)


def test_a_field_of_an_experiment(here: Path) -> None:
    cases = {
        'seed = "x"': (4, "fix for example seed = 42"),
        "# seed = 3\n\nseed = -1": (6, "got -1 | allowed greater than or equal to 0 | fix write `seed = 42`"),
        "seed = [1, 2]": (4, "fix write one value; `ape sweep FILE` tries several"),
        "seeds = [1]": (4, "fix did you mean 'seed'?"),
        "sizes = [1, 'x']": (4, "fix for example sizes = [10, 20]"),
        'sizes = "x"': (4, "bad sizes"),
        'generalise = "x"': (4, "bad generalise"),
        'decode = "greed"': (4, "did you mean 'greedy'?"),
        'order = "depth"': (4, "copy is not a task on trees"),
        'precision = "tf32"': (4, 'fix write `precision = "fp32"`'),
        'attention = "lnear"': (4, "did you mean 'linear'?"),
        'structure = "sq"': (4, "bad structure"),
        'positions = "x"': (4, "unknown position map"),
        'model = "decodr"': (4, "did you mean 'decoder'?"),
        'data = "none"': (4, "no such dataset"),
        "[tune]": (4, "[tune] belongs to a sweep"),
        "set = { lr_peak = 1e-3, dropout = 2 }": (4, "got 2 | allowed less than 1 | fix write `dropout = 0.0`"),
        "[set]\nlr_peak = 1e-3\nlr = 3": (6, "did you mean 'lr_peak'?"),
        "set.max_size = 9": (4, "fix leave max_size out"),
        "[set]\n\n'base' = \"x\"": (6, "bad base"),
        "set = { epochs = 1, steps = 2 }": (4, "epochs and steps exclude each other"),
        "set = 5": (4, "allowed a table | fix for example set = { lr_peak = 1e-3 }"),
        "set = { d_model = nan }": (4, "fix for example set = { lr_peak = 1e-3 }"),
        "set = { d_model = [1] }": (4, "fix write one value; `ape sweep FILE` tries several"),
    }
    check("e.toml", EXPERIMENT, cases)
    check("e.toml", 'scheme = "rope"\ntask = "copy"\n', {'preset = ""': (3, "unknown preset")})
    check("s.toml", 'schemes = ["rope"]\ntasks = ["copy"]\n', {'preset = ""': (3, "unknown preset")})
    assert "unknown preset" in told("e.toml", 'scheme = "rope"\ntask = "copy"', "--preset", "")
    check("e.toml", "", {'scheme = "rop"\ntask = "copy"': (1, "did you mean 'rope'?")})
    check("e.toml", "", {'scheme = "rope"\n\ntask = "cop"': (3, "did you mean 'copy'?")})
    check("e.toml", "", {'scheme = "rope"\nsizes = [3]': (2, "sizes needs a task")})
    check("e.toml", "", {'scheme = "t5"\ntask = "copy"\nattention = "linear"': (3, "cannot take the bias")})
    assert "error: e.toml: no scheme is named" in told("e.toml", 'task = "copy"')
    assert "e.toml is not TOML | got Invalid value (at line 4," in told("e.toml", f"{EXPERIMENT}seed = x")


def test_a_field_of_a_sweep(here: Path) -> None:
    cases = {
        "seeds = [1,\n  'x']": (5, "fix for example seeds = [42]"),
        "seeds = [1, -1]": (4, "fix write `seeds = [42]`"),
        "seed = [1]": (4, "did you mean 'seeds'?"),
        'models = "decoder"': (4, 'fix for example models = ["decoder"]'),
        'orders = ["depth"]': (4, "no task of the sweep has an order"),
        'data = ["none"]': (4, "no such dataset"),
        "set = { lr_peak = [[1]] }": (4, "fix for example set = "),
        "[[grid]]\nset = { dropout = 0 }\n[[grid]]\nset = { dropout = [0, 2] }": (7, "fix write `dropout = 0.0`"),
        '[[grid]]\nschemes = ["none"]\n[[grid]]\nschemes = [\n  "t5",\n  "rop",\n]': (9, "did you mean 'rope'?"),
        "[tune]\nset = { lr_peak = [1, 1] }": (5, "a value of lr_peak is repeated"),
        "[tune]\nset = { lr_peak = 1 }": (5, "fix for example set = "),
        "[tune]\nseeds = [7]\nset = { lr_peak = [1, 2] }": (5, "seeds of [tune]"),
        "seeds = [1]\n[tune]\ntrials = 7\nset = { lr_peak = [1, 2] }": (6, "fix leave trials out"),
        "[tune]\nset = { lr_peak = [1, 2] }\nnew = 1": (6, "unknown field of [tune]"),
        "[tune]\nseeds = [42]": (4, "tune names no setting"),
        "grid = 3": (4, "fix write [[grid]]"),
        '[grid]\nschemes = ["none"]': (4, "got [grid] | fix write [[grid]]"),
    }
    check("s.toml", SWEEP, cases)
    assert "s.toml: the sweep names no schemes | got none | fix schemes = [...]" in told("s.toml", "seeds = [1]")
    told_by_report = ape("report", "--sweep", "s.toml", code=2)[1]
    assert "s.toml: the sweep names no schemes" in told_by_report


def test_the_fix_has_a_valid_value_of_every_setting(here: Path) -> None:
    for kind in config.KINDS:
        for name in config.settable(kind):
            wrong = 5 if name == "augment" else "x"
            Path("e.toml").write_text(f"[set]\n{name} = {wrong!r}\n")
            with pytest.raises(UsageError, match=r"e\.toml, line 2: ") as error, in_file(Path("e.toml"), (), ()):
                config.resolve("tiny", "rope", {}, kind=kind, settings={name: wrong})
            fix = re.fullmatch("write `(.*)`", error.value.fix or "")
            assert fix is not None, error.value.fix
            valid = tomllib.loads(fix[1])
            config.resolve("tiny", "rope", {}, kind=kind, settings=valid)


def test_the_second_of_two_grids(here: Path) -> None:
    cases = {
        ("seeds = [42]", "seeds = 42"): "bad seeds",
        ("seeds = [42]", 'seeds = ["42"]'): "bad seeds.0",
        ('decode = "teacher"', 'decode = ["greedy"]'): "bad decode",
        ('models = ["decoder"]', 'models = [""]'): "unknown model",
    }
    for (right, wrong), part in cases.items():
        shown = told("s.toml", f"{SWEEP}[[grid]]\n{right}\n[[grid]]\n{wrong}\n")
        assert f"error: s.toml, line 7: {part}" in shown, shown


def test_a_file_without_fields(here: Path) -> None:
    for text in ("", "# only a comment\n"):
        assert "error: e.toml: no scheme is named" in told("e.toml", text)
        assert "error: s.toml: the sweep names no schemes" in told("s.toml", text)


def test_an_option_in_place_of_a_field_keeps_its_flag(here: Path) -> None:
    for name, base in (("e.toml", EXPERIMENT), ("s.toml", f"{SWEEP}set = {{ dropout = 0 }}")):
        for words, part in (
            (["--preset", "tinyy"], "error: unknown preset"),
            (
                ["--set", "dropout=2"],
                "error: bad value of dropout | got 2 | allowed less than 1 | fix --set dropout=VALUE",
            ),
            (["--generalise", "x"], "error: bad --generalise"),
        ):
            assert part in told(name, base, *words), (name, words)
