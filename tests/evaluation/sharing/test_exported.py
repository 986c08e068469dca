"""Exported models: they predict as the run does, their card says what they are, and damage is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

import ape_cli
from ape_cli import experiment
from ape_cli.core.errors import DataError, RunError, UsageError
from ape_cli.core.vocabulary import EOS, PAD, SOS
from ape_cli.data.loader import Dataset
from ape_cli.evaluation.sharing import exported
from ape_cli.evaluation.sharing.hub import push_model
from ape_cli.evaluation.sharing.trained_model import TrainedModel
from ape_cli.models.checkpoint import load_weights
from ape_cli.models.factory import of_experiment
from tests.conftest import ape
from tests.evaluation.sharing.conftest import Both


def check_same_predictions(both: Both, data: Dataset) -> None:
    """Logits are equal bit for bit to those of the run's own weights, and so are the scores of the run."""
    done, model = both
    own = of_experiment(experiment.of(done.record.config, data))
    load_weights(done, own)
    own.eval()
    for batch in data.split("test").batches(16, options=experiment.of(done.record.config, data).batch_options()):
        with torch.no_grad():
            assert torch.equal(model.logits(batch), own(*batch.inputs))
    (stored,), _ = done.evaluations()
    assert model.evaluate(data)["overall"] == stored["overall"]
    assert model.about["scores"][0]["overall"] == stored["overall"]
    assert not model.module.training


def test_predictions_on_words_are_those_of_the_run(
    of_words: Both, words: Dataset, of_trees: Both, trees: Dataset
) -> None:
    """The same for trees."""
    check_same_predictions(of_words, words)
    check_same_predictions(of_trees, trees)


def by_hand(model: TrainedModel, source: list[str], most: int) -> list[str]:
    """Greedy decoding of one word, as a loop: the best symbol after each prefix, until EOS."""
    ids = torch.tensor([[*map(model.vocabulary.index, source), EOS]])
    places, written = torch.arange(1, ids.shape[1] + 1)[None], [SOS]
    while len(written) <= most and written[-1] != EOS:
        at = torch.arange(len(written))[None]
        with torch.no_grad():
            scores = model.module(ids, places, torch.ones_like(ids, dtype=torch.bool), torch.tensor([written]), at)
        written.append(int(scores[0, -1].argmax()))
    return [model.vocabulary[i] for i in written[1:] if i not in (EOS, PAD)]


def test_words_are_written_until_their_end(of_words: Both, words: Dataset) -> None:
    _, model = of_words
    sources = [[words.manifest.vocabulary[i] for i in row] for row in ([5, 3], [4, 9, 4, 4, 7], [3])]
    found = model.predict(sources, max_tokens=9)
    assert found == [by_hand(model, source, 9) for source in sources]
    assert found == model.predict([" ".join(source) for source in sources], max_tokens=9, batch_size=1)
    assert model.predict([]) == []
    with pytest.raises(UsageError, match="unknown symbol"):
        model.predict(["no-such-symbol"])
    with pytest.raises(UsageError, match=r"not a list of sources[\s\S]*predict\(\['a b'\]\)"):
        model.predict("a b")
    with pytest.raises(UsageError, match="bad max_tokens"):
        model.predict(sources, max_tokens=0)
    with pytest.raises(UsageError, match="bad batch_size"):
        model.predict(sources, batch_size=-1)


def test_arguments_of_another_type_are_named(of_words: Both, words: Dataset) -> None:
    _, model = of_words
    test = words.split("test")
    for ask, needed in (
        (lambda: model.predict(words), "a split"),
        (lambda: model.batches(words), "a split"),
        (lambda: model.evaluate(test), "a dataset"),
        (lambda: model.logits(test), "a batch"),
    ):
        with pytest.raises(UsageError, match=rf"cannot read this argument\n.*\n +allowed: {needed}"):
            ask()


def test_a_run_is_loaded_without_an_export(of_words: Both, words: Dataset) -> None:
    done, exported_model = of_words
    model = ape_cli.load(done)
    assert model.predict(words.split("test")[:3]) == exported_model.predict(words.split("test")[:3])
    assert {**model.about, "files": {}} == {**exported_model.about, "files": {}}


@pytest.mark.parametrize("name", ["words", "trees"])
def test_answers_to_a_split_are_those_that_greedy_decoding_scores(name: str, request: pytest.FixtureRequest) -> None:
    _, model = request.getfixturevalue(f"of_{name}")
    data = request.getfixturevalue(name)
    table = data.split("test").table().sort_by("row")
    answers = [[data.manifest.vocabulary[i] for i in row] for row in table["target_ids"].to_pylist()]
    found = model.predict(data.split("test"), batch_size=9)
    assert model.predict(data.split("test")[3:4]) == found[3:4]
    greedy = model.evaluate(data, decode="greedy")["overall"]
    assert sum(a == b for a, b in zip(answers, found, strict=True)) / len(answers) == greedy["exact_match"]
    if name == "trees":
        right = sum(x == y for a, b in zip(answers, found, strict=True) for x, y in zip(a, b, strict=True))
        assert right / sum(map(len, answers)) == pytest.approx(greedy["token_accuracy"])
        with pytest.raises(UsageError, match="no positions"):
            model.predict(["x1"])


def test_another_dataset_is_refused(of_words: Both, trees: Dataset) -> None:
    _, model = of_words
    for ask in (lambda: model.evaluate(trees), lambda: model.predict(trees.split("test"))):
        with pytest.raises(DataError, match="the task or order of the dataset differs"):
            ask()


def test_the_command_exports_once(of_words: Both, tmp_path: Path) -> None:
    """An earlier export is replaced only if it is asked for and the run is whole."""
    done, model = of_words
    shutil.copytree(done.folder, tmp_path / "runs" / done.name)
    out = tmp_path / "out"
    words = ("export", done.name[:-2], "--out", str(out), "--results", str(tmp_path))
    assert f"{done.name}: exported to" in ape(*words)[0]
    assert sorted(path.name for path in out.iterdir()) == sorted(exported.FILES)
    first = {path.name: path.read_bytes() for path in out.iterdir()}
    assert str(tmp_path) not in first["config.json"].decode() + first["README.md"].decode()
    assert "add `--overwrite`" in ape(*words, code=2)[1]
    assert json.loads(ape(*words, "--overwrite", "--json")[0])["scores"] == model.about["scores"]
    weights = tmp_path / "runs" / done.name / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    assert "was altered" in ape(*words, "--overwrite", code=1)[1]
    assert {path.name: path.read_bytes() for path in out.iterdir()} == first
    (out / "mine.txt").write_text("x")
    assert "the folder is not empty" in ape(*words, "--overwrite", code=2)[1]


def test_damage_is_refused(of_words: Both, tmp_path: Path) -> None:
    """Also in the configuration, whose hash is a part of the name of the run, and of a file that is missing."""
    with pytest.raises(RunError, match=r"not an exported model[\s\S]*ape export RUN"):
        ape_cli.load(tmp_path)
    exported.export(of_words[0], tmp_path / "out")
    for name in ("model.safetensors", "vocabulary.json", "config.json"):
        out = shutil.copytree(tmp_path / "out", tmp_path / name)
        raw = bytearray((out / name).read_bytes())
        raw[int(0.2 * len(raw))] ^= 1
        (out / name).write_bytes(raw)
        with pytest.raises(RunError, match=rf"{name}[\s\S]*export the run again"):
            ape_cli.load(out)
        (out / name).unlink()
        with pytest.raises(RunError, match=name):
            ape_cli.load(out)


def test_config_json_has_a_digest_of_its_own(of_words: Both, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its form may change, not what it says. That of an earlier version has none, and lacks a field."""
    exported.export(of_words[0], tmp_path)
    path = tmp_path / "config.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(dict(reversed(content.items()))))
    assert ape_cli.load(tmp_path).about == content
    assert not caplog.text
    scores = [content["scores"][0] | {"overall": content["scores"][0]["overall"] | {"exact_match": 1.0}}]
    path.write_text(json.dumps(content | {"scores": scores}))
    with pytest.raises(RunError, match=r"config\.json was altered[\s\S]*export the run again"):
        ape_cli.load(tmp_path)
    del content["files"]["config.json"], content["resumed_with"]
    path.write_text(json.dumps(content))
    assert ape_cli.load(tmp_path).about["scores"] == content["scores"]
    assert "is from an earlier version" in caplog.text
    with pytest.raises(RunError, match="is from an earlier version"):
        push_model(tmp_path, "somebody/model", private=True)
