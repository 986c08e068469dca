"""The folder of an exported model: what `ape export` writes, and how it is checked when it is read.

| file | content |
|---|---|
| model.safetensors | the best weights of the run |
| vocabulary.json | the name of each token id or image class |
| README.md | the model card, for readers and for the Hugging Face Hub |
| config.json | configuration, dataset, scores, versions, and SHA-256 digests in `files` |

`files` has the digests of the first two files and of config.json itself. The latter is that of its content without this
entry, as JSON with sorted keys and no whitespace. config.json is written last, so a folder with it is complete. The
card has no digest, because its owner may edit it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shlex
import sys
from importlib import resources
from typing import Any, Literal, TypeVar

from jinja2 import Environment, StrictUndefined
from pydantic import BaseModel, ConfigDict, Field, field_serializer

from ape_cli import position, tasks
from ape_cli.core import plugins
from ape_cli.core.errors import ApeError, RunError, UsageError, cannot_write
from ape_cli.core.escaping import code, markdown, one_line
from ape_cli.core.validation import HEX, Many
from ape_cli.core.vocabulary import shown
from ape_cli.data.card import gen_command
from ape_cli.evaluation.evaluate import check_finished
from ape_cli.models import factory
from ape_cli.models.checkpoint import load_weights
from ape_cli.models.factory import PARTS, user_parts
from ape_cli.models.transformer import Model
from ape_cli.runs import record
from ape_cli.runs.config import AnyConfig, Config
from ape_cli.runs.record import DatasetRecord, Metrics, TrainingResult, settings_text
from ape_cli.runs.run import WEIGHTS, Run
from ape_cli.storage import files
from ape_cli.storage.paths import StoragePath, storage_path
from ape_cli.storage.tensors import save_tensors
from ape_cli.structure import parse_structure

CONFIG, VOCABULARY, CARD = "config.json", "vocabulary.json", "README.md"
FILES = (WEIGHTS, VOCABULARY, CARD, CONFIG)  # in the order in which they are written
AGAIN = "export the run again, or download the folder again"
_Model = TypeVar("_Model", bound=BaseModel)
logger = logging.getLogger(__name__)


class Score(BaseModel):
    """The metrics of the run on one split of a dataset."""

    dataset: str
    fingerprint: str = Field(pattern=HEX)
    split: Literal["train", "validation", "test"]
    decode: Literal["teacher", "greedy"]
    overall: Metrics


class Exported(BaseModel):
    """The content of `config.json`."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    version: Literal[2] = 2
    run: str
    config: AnyConfig
    variant: dict[str, Any]
    dataset: DatasetRecord
    result: TrainingResult
    scores: Many[Score]
    versions: dict[str, str]
    commit: str | None
    own_files: dict[str, str] = Field(default_factory=dict)  # as in run.json
    resumed_with: Many[dict[str, str]] = Field(default_factory=list)  # as in run.json
    files: dict[str, str]

    @field_serializer("dataset")
    def _without_path(self, data: DatasetRecord) -> dict[str, Any]:
        """Leave out the path, which says nothing elsewhere, and the vocabulary, which has a file of its own."""
        return data.model_dump(exclude={"path", "vocabulary"})


class Vocabulary(BaseModel):
    """The content of `vocabulary.json`."""

    names: Many[str] = Field(min_length=1)


def export(run: Run, folder: StoragePath, *, overwrite: bool = False) -> dict[str, Any]:
    """Write the model of a finished run to a folder. Returns the content of its config.json.

    `overwrite`: whether an earlier export there is replaced. Raises `UsageError` if the run is not finished, or if the
    folder has other content, `RunError` if a file of the run is missing or damaged, and `ApeError` if the folder cannot
    be written.
    """
    _check_room(folder, overwrite)
    exported, model, vocabulary = of_run(run)
    card = model_card(exported.model_dump(mode="json"), vocabulary)
    files.remove(folder / CONFIG)  # everything else is ready: an error above leaves an earlier export as it is
    files.folder(folder)
    save_tensors(folder / WEIGHTS, model.state_dict(), {"run": run.name})
    files.write_text(folder / VOCABULARY, record.text(Vocabulary(names=vocabulary)))
    files.write_text(folder / CARD, card)
    exported.files = {name: files.sha256(folder / name) for name in (WEIGHTS, VOCABULARY)}
    exported.files[CONFIG] = _digest(exported.model_dump(mode="json"))
    files.write_text(folder / CONFIG, record.text(exported))
    return exported.model_dump(mode="json")


def of_run(run: Run) -> tuple[Exported, Model, list[str]]:
    """What an export of a finished run contains: config.json without digests, the model, and the vocabulary.

    Raises the errors of `export` about the run.
    """
    trained = check_finished(run)
    vocabulary = trained.dataset.vocabulary
    model = model_of(trained.config, trained.dataset, vocabulary)
    load_weights(run, model)
    exported = Exported(
        run=run.name,
        config=trained.config,
        variant=trained.variant,
        dataset=trained.dataset,
        result=trained.outcome,
        scores=[Score(**{name: scored[name] for name in Score.model_fields}) for scored in run.evaluations()[0]],
        versions=trained.versions,
        commit=trained.commit,
        own_files=trained.own_files,
        resumed_with=trained.resumed_with,
        files={},
    )
    return exported, model, vocabulary


def _digest(content: dict[str, Any]) -> str:
    """The SHA-256 of the content of config.json without this digest, whatever its whitespace and the order of keys."""
    others = {name: digest for name, digest in content["files"].items() if name != CONFIG}
    text = json.dumps(content | {"files": others}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _check_room(folder: StoragePath, overwrite: bool) -> None:
    """Check that the folder is new, empty or, with `overwrite`, has an export. Raises `UsageError` if it is not."""
    try:
        names = {name for name, _ in files.entries(folder) if not name.startswith(".")}
    except OSError as error:
        raise cannot_write(folder, error) from error
    if names and not (overwrite and names <= set(FILES)):
        fix = "choose another `out`" + ", or add `overwrite`" * (names <= set(FILES))
        raise UsageError("the folder is not empty", got=f"{folder}: {min(names - set(FILES), default=CONFIG)}", fix=fix)


def model_of(config: Config, data: DatasetRecord, vocabulary: list[str]) -> Model:
    """The model of an export, before its weights are loaded. `data` is the dataset in config.json."""
    return factory.without_weights(config, parse_structure(data.structure), len(vocabulary), data.image)


def read_export(where: str | StoragePath) -> tuple[StoragePath, Exported, list[str]]:
    """Read an export, without its weights: its folder, the content of config.json, and the vocabulary.

    Raises `RunError` if a file is missing, damaged or altered.
    """
    folder = storage_path(where)
    exported = _read(folder / CONFIG, Exported)
    data = exported.dataset
    name = record.run_name(exported.config, data.task, data.order, data.fingerprint)
    if name != exported.run:
        raise RunError(f"{folder / CONFIG} was altered", got=name, allowed=exported.run, fix=AGAIN)
    checked = [WEIGHTS, VOCABULARY, CONFIG]
    if CONFIG not in exported.files:
        checked.remove(CONFIG)
        logger.warning(f"{folder / CONFIG} is from an earlier version, so changed scores go unnoticed; {AGAIN}")
    for name in checked:
        path = folder / name
        try:
            digest = files.sha256(path) if name != CONFIG else _digest(files.read_json(path))
        except OSError as error:
            raise RunError(f"cannot read {path}", got=error.strerror, fix=files.how_to_read(error, AGAIN)) from error
        if digest != exported.files.get(name):
            raise RunError(f"{path} was altered", got=f"sha256 {digest}", fix=AGAIN)
    return folder, exported, _read(folder / VOCABULARY, Vocabulary).names


def _read(path: StoragePath, model: type[_Model]) -> _Model:
    """The content of a JSON file of an export. Raises `RunError` if it is missing or damaged."""
    try:
        return record.read(path, model, AGAIN)
    except FileNotFoundError:
        fix = "`ape export RUN --out DIR` writes one; or give a run: load(registry.open(RESULTS).find(RUN))"
        raise RunError("this is not an exported model", got=f"no file {path}", fix=fix) from None


# Fields of the configuration that are options of `ape train`, and not of its `--set`.
_OPTIONS = {name: f"--{name}" for name in ("structure", "attention", "positions", "model", "precision")}
_DECODINGS = {"teacher": "teacher forcing", "greedy": "greedy decoding"}
_METRICS = {"token_accuracy": "accuracy", "exact_match": "exact_match", "cross_entropy": "cross_entropy"}  # on the Hub


def model_card(about: dict[str, Any], vocabulary: list[str]) -> str:
    """The model card: Markdown, with front matter in YAML that the Hugging Face Hub reads.

    `about` is the content of config.json; `vocabulary` has the names of all ids or classes. The values in the front
    matter are written as JSON, which is YAML too. The text is in `model_card.md.jinja`.

    Source: https://huggingface.co/docs/hub/model-cards.
    """
    config, data = about["config"], about["dataset"]
    scheme = position.load(config["scheme"])
    encoding = plugins.described(sys.modules[scheme.__module__], f"{config['scheme']}.")
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True)
    environment.filters |= {"markdown": markdown, "code": code, "shown": shown}
    template = resources.files(__package__).joinpath("model_card.md.jinja").read_text(encoding="utf-8")
    return environment.from_string(template).render(
        about={"own_files": {}, "resumed_with": []} | about,
        config=config,
        data=data,
        result=about["result"],
        vocabulary=vocabulary,
        front_matter=_front_matter(about),
        column=f"{data['task']}/{data['order']}" if data["order"] else data["task"],
        task=_first_paragraph(data["task"]),
        encoding=f"{encoding} Source: {scheme.source}.",
        changes=settings_text(about["variant"]),
        decodings=_DECODINGS,
        own={what: part.__module__ for what, part in user_parts(**{part: config[part] for part in PARTS}).items()},
        commands=[one_line(line) for line in (_gen_command(data), train_command(about)) if line],
        versions=", ".join(f"{name} {version}" for name, version in sorted(about["versions"].items())),
    )


def train_command(about: dict[str, Any]) -> str:
    """The `ape train` command of a run. Settings that are those of the preset are left out."""
    config, words = about["config"], ["ape", "train", "--scheme", about["config"]["scheme"]]
    changed = {name: value for name, value in about["variant"].items() if value is not None}
    for name, option in _OPTIONS.items():
        if name in changed:
            words += [option, _text(changed.pop(name))]
    words += ["--preset", config["preset"], "--seed", str(config["seed"])]
    for name, value in sorted(changed.items()):
        words += ["--set", f"{name}={_text(value)}"]
    return shlex.join([*words, "--data", about["dataset"]["name"]])


def _text(value: Any) -> str:
    """A value as the command line takes it."""
    return value if isinstance(value, str) else json.dumps(value)


def _gen_command(data: dict[str, Any]) -> str:
    """The `ape gen` command of the dataset; empty if its task is not known here."""
    try:
        task = tasks.recorded(data["task"], data["order"], data["parameters"])
        command = gen_command(task, data["rows"], data["seed"])
    except ApeError:  # the files of a user's own source are not there, for example
        return ""
    return f"{command} --out {shlex.quote(data['name'])}"


def _front_matter(about: dict[str, Any]) -> str:
    """The front matter: what the Hub shows and searches, with the scores. An image has one label, and no decoding."""
    data, is_image = about["dataset"], about["dataset"].get("image") is not None
    task_type = "image-classification" if is_image else "sequence-to-sequence"

    def metric(score: dict[str, Any], field: str) -> dict[str, Any]:
        words = _METRICS[field] if is_image else f"{field.replace('_', ' ')}, {_DECODINGS[score['decode']]}"
        return {"type": _METRICS[field], "value": score["overall"][field], "name": words}

    results = [
        {
            "task": {"type": task_type, "name": data["task"]},
            "dataset": {"type": score["dataset"], "name": score["dataset"], "split": score["split"]},
            "metrics": [
                metric(score, field)
                for field in _METRICS
                if field in score["overall"] and not (is_image and field == "exact_match")
            ],
        }
        for score in about["scores"]
    ]
    tags = ["ape", "positional-encoding", about["config"]["scheme"], data["task"]]
    content: dict[str, Any] = {"library_name": "ape-cli", "tags": tags}
    if is_image:
        content["pipeline_tag"] = task_type
    if results:
        content["model-index"] = [{"name": about["run"], "results": results}]
    return "\n".join(f"{name}: {json.dumps(value)}" for name, value in content.items())


def _first_paragraph(task: str) -> str:
    """The first paragraph of the docstring of a task; its name if it has none or is not known here."""
    try:
        return plugins.described(tasks.load(task), task)
    except ApeError:
        return task
