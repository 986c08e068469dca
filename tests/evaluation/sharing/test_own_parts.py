"""Exports of models whose scheme is not part of ape: the card and `ape_cli.load` name the file that is needed."""

from __future__ import annotations

from pathlib import Path

import pytest

import ape_cli
from ape_cli import position
from ape_cli.core import plugins
from ape_cli.core.errors import RunError
from ape_cli.evaluation.sharing.exported import export, model_card
from tests.evaluation.sharing.conftest import Both


def test_the_card_names_the_file_of_an_own_scheme(of_words: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    _, model = of_words
    assert "PYTHONPATH" not in model_card(model.about, model.vocabulary)
    t5 = position.load("t5")
    monkeypatch.setattr(plugins, "is_user_class", lambda found: found is t5)
    card = " ".join(model_card(model.about, model.vocabulary).split())
    assert "The scheme 't5' is not part of `ape`. To load the model, get its file `ape_cli/position/t5.py` from" in card
    assert "add the folder that contains `ape_cli` to `PYTHONPATH`" in card
    assert "attention 'dot'" not in card
    monkeypatch.setattr(t5, "__module__", "numpy")  # as if an installed package had provided it
    assert "install the package of `numpy`" in model_card(model.about, model.vocabulary)


def test_a_missing_file_is_named(of_words: Both, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export(of_words[0], tmp_path / "out")
    monkeypatch.setattr(position, "names", lambda: ["rope"])
    with pytest.raises(RunError, match="scheme 't5' is not part of ape, and its file is missing here") as caught:
        ape_cli.load(tmp_path / "out")
    assert "get ape_cli/position/t5.py from" in str(caught.value.fix)


def test_an_export_with_another_file_is_not_loaded(
    of_words: Both, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, t5 = of_words[0], position.load("t5")
    monkeypatch.setattr(plugins, "is_user_class", lambda found: found is t5)
    digest = "a" * 64
    monkeypatch.setattr(plugins, "digest", lambda found: digest)
    monkeypatch.setattr(run, "_record", run.read().model_copy(update={"own_files": {"scheme 't5'": digest}}))
    export(run, tmp_path)
    assert f"The SHA-256 of its code is `{digest}`." in (tmp_path / "README.md").read_text()
    assert ape_cli.load(tmp_path).about["own_files"] == {"scheme 't5'": digest}
    monkeypatch.setattr(plugins, "digest", lambda found: "b" * 64)
    with pytest.raises(RunError, match="the code of scheme 't5' is not that of the model"):
        ape_cli.load(tmp_path)
