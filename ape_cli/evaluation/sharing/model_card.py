"""The model card of an exported run: Markdown, with front matter in YAML that the Hugging Face Hub reads.

Source: https://huggingface.co/docs/hub/model-cards. The values in the front matter are written as JSON, which is
YAML too. The text is in `model_card.md.jinja`.
"""

from __future__ import annotations

import json
import shlex
import sys
from importlib import resources
from typing import Any

from jinja2 import Environment, StrictUndefined

from ape_cli import position, tasks
from ape_cli.core import plugins
from ape_cli.core.errors import ApeError
from ape_cli.core.escaping import code, markdown, one_line
from ape_cli.core.vocabulary import shown
from ape_cli.data.card import gen_command
from ape_cli.models.factory import PARTS, user_parts
from ape_cli.runs.record import settings_text

# Fields of the configuration that are options of `ape train`, and not of its `--set`.
_OPTIONS = {name: f"--{name}" for name in ("structure", "attention", "positions", "model", "precision")}
_DECODINGS = {"teacher": "teacher forcing", "greedy": "greedy decoding"}
_METRICS = {
    "token_accuracy": ("accuracy", "token accuracy"),
    "exact_match": ("exact_match", "exact match"),
    "cross_entropy": ("cross_entropy", "cross-entropy in nats for each token"),
}


def model_card(about: dict[str, Any], vocabulary: list[str]) -> str:
    """The model card. `about` is the content of config.json; `vocabulary` has the names of all ids or classes."""
    config, data = about["config"], about["dataset"]
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
        encoding=_summary(config["scheme"]),
        changes=settings_text(about["variant"]),
        scores=_scores(about),
        accuracy="accuracy" if data.get("image") else "token accuracy",
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
    if isinstance(value, dict):
        return json.dumps(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _gen_command(data: dict[str, Any]) -> str:
    """The `ape gen` command of the dataset; empty if its task is not known here."""
    try:
        task = tasks.recorded(data["task"], data["order"], data["parameters"])
        command = gen_command(task, data["rows"], data["seed"])
    except ApeError:  # the files of a user's own source are not there, for example
        return ""
    return f"{command} --out {shlex.quote(data['name'])}"


def _front_matter(about: dict[str, Any]) -> str:
    """The front matter: what the Hub shows and searches, with the scores."""
    data, is_image = about["dataset"], about["dataset"].get("image") is not None
    kind = "image-classification" if is_image else "sequence-to-sequence"
    results = [
        {
            "task": {"type": kind, "name": data["task"]},
            "dataset": {"type": score["dataset"], "name": score["dataset"], "split": score["split"]},
            "metrics": [
                {"type": metric, "value": score["overall"][field], "name": _named(words, score, is_image)}
                for field, (metric, words) in _METRICS.items()
                if score["overall"].get(field) is not None and not (is_image and field == "exact_match")
            ],
        }
        for score in about["scores"]
    ]
    tags = ["ape", "positional-encoding", about["config"]["scheme"], data["task"]]
    content: dict[str, Any] = {"library_name": "ape-cli", "tags": tags}
    if is_image:
        content["pipeline_tag"] = kind
    if results:
        content["model-index"] = [{"name": about["run"], "results": results}]
    return "\n".join(f"{name}: {json.dumps(value)}" for name, value in content.items())


def _named(words: str, score: dict[str, Any], is_image: bool) -> str:
    """The name of a metric in words, with the decoding. An image has one label, and nothing to decode."""
    of_images = words.replace("token accuracy", "accuracy").replace("token", "image")
    return of_images if is_image else f"{words}, {_DECODINGS[score['decode']]}"


def _scores(about: dict[str, Any]) -> str:
    """The table of scores; empty if there are none."""
    is_image = about["dataset"].get("image") is not None
    accuracy = "accuracy" if is_image else "token accuracy"
    heads = ["dataset", "split", "decoding", f"{accuracy} (%)", "exact match (%)", "cross-entropy (nats)", "rows"]
    rows = [heads, ["---"] * 3 + ["---:"] * 4]
    for score in about["scores"]:
        overall, nats = score["overall"], score["overall"].get("cross_entropy")
        shares = [f"{100 * overall.get(name, 0):.2f}" for name in ("token_accuracy", "exact_match")]
        numbers = [*shares, "" if nats is None else f"{nats:.4f}", str(overall["rows"])]
        rows.append([markdown(score["dataset"]), score["split"], _DECODINGS[score["decode"]], *numbers])
    if is_image:  # nothing is decoded, and an image has one label
        rows = [[*row[:2], row[3], *row[5:]] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) if about["scores"] else ""


def _first_paragraph(task: str) -> str:
    """The first paragraph of the docstring of a task; its name if it has none or is not known here."""
    try:
        return plugins.described(tasks.load(task), task)
    except ApeError:
        return task


def _summary(scheme: str) -> str:
    """The first paragraph of the docstring of a scheme's file, and its source."""
    loaded = position.load(scheme)
    about = plugins.described(sys.modules[loaded.__module__], f"{scheme}.")
    return f"{about} Source: {loaded.source}."
