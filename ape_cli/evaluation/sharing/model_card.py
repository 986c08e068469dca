"""The model card of an exported run: Markdown, with front matter in YAML that the Hugging Face Hub reads.

Source: https://huggingface.co/docs/hub/model-cards. The values in the front matter are written as JSON, which is
YAML too.
"""

from __future__ import annotations

import inspect
import json
import shlex
import sys
from collections.abc import Iterable
from typing import Any

from ape_cli import position, tasks
from ape_cli.core.errors import ApeError
from ape_cli.core.escaping import code, markdown, one_line
from ape_cli.data.card import gen_command
from ape_cli.models.own_files import own_parts
from ape_cli.runs.record import settings_text
from ape_cli.structure import linearisation

# Fields of the configuration that are options of `ape train`, and not of its `--set`.
_OPTIONS = {"structure": "--structure", "attention": "--attention", "precision": "--precision"}
_DECODINGS = {"teacher": "teacher forcing", "greedy": "greedy decoding"}
_METRICS = {
    "token_accuracy": ("accuracy", "token accuracy"),
    "exact_match": ("exact_match", "exact match"),
    "cross_entropy": ("cross_entropy", "cross-entropy in nats for each token"),
}
_IMAGE_METRICS = {  # an image has one label, so there is no exact match, and nothing to decode
    "token_accuracy": ("accuracy", "accuracy"),
    "cross_entropy": ("cross_entropy", "cross-entropy in nats for each image"),
}


def model_card(about: dict[str, Any], vocabulary: list[str]) -> str:
    """The model card. `about` is the content of config.json; `vocabulary` has the names of all ids or classes."""
    config, data = about["config"], about["dataset"]
    column = f"{data['task']}/{data['order']}" if data["order"] else data["task"]
    trained = [one_line(line) for line in (_gen_command(data), train_command(about)) if line]
    versions = ", ".join(f"{name} {version}" for name, version in sorted(about["versions"].items()))
    result, rows = about["result"], f"{data['rows']['train']:,} training rows, fingerprint `{data['fingerprint']}`"
    size = f"{result['parameters']:,} parameters, seed {config['seed']}, {result['steps']:,} steps"
    facts = [
        f"- **Task**: {_first_paragraph(data['task'])}",
        f"- **Encoding**: {markdown(_summary(config['scheme']))}",
        f"- **Data**: {code(data['name'])}, structure {code(data['structure'])}, {rows}",
        f"- **Model**: preset {code(config['preset'])}{_changes(about)}, {size}",
    ]
    loading = ["```python", "import ape_cli", 'model = ape_cli.load("DIR")  # the folder with these files', "```"]
    paragraphs = [
        _front_matter(about),
        f"# {markdown(about['run'])}",
        f"A transformer for the task {code(column)} with the encoding {code(config['scheme'])}, trained by `ape`.",
        "\n".join(facts),
        "## Scores",
        *_scores(about),
        "## Load",
        "\n".join(loading),
        *_own_parts(config, about.get("own_files", {})),
        f"{_usage(data)}\n`huggingface_hub.snapshot_download` downloads the folder from the Hub.",
        f"Names of {'classes' if data.get('image') else 'ids'}: {_names(vocabulary)} (`vocabulary.json`).",
        "## Train again",
        "\n".join(["```sh", *trained, "```"]),
        f"Commit: {markdown(about['commit'] or 'unknown')}. Versions: {markdown(versions or 'unknown')}.",
    ]
    return "\n\n".join(paragraphs) + "\n"


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
    return str(value).lower() if isinstance(value, bool) else str(value)


def _gen_command(data: dict[str, Any]) -> str:
    """The `ape gen` command of the dataset; empty if its task is not known here."""
    try:
        options = tasks.load(data["task"]).recorded(data["parameters"])
        task = tasks.make(data["task"], *linearisation.parse(data["order"]), **options)
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
                for field, (metric, words) in (_IMAGE_METRICS if is_image else _METRICS).items()
                if score["overall"].get(field) is not None
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
    return "\n".join(["---", *(f"{name}: {json.dumps(value)}" for name, value in content.items()), "---"])


def _named(words: str, score: dict[str, Any], is_image: bool) -> str:
    """The name of a metric in words, with the decoding."""
    return words if is_image else f"{words}, {_DECODINGS[score['decode']]}"


def _scores(about: dict[str, Any]) -> list[str]:
    """The table of scores, and a line about the validation during training."""
    result, is_image = about["result"], about["dataset"].get("image") is not None
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
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    note = f"The weights are those of step {result['best_step']:,}, with the best {accuracy} on the validation split"
    return [
        table if about["scores"] else "The run has no evaluation (`ape eval` makes one).",
        f"{note}: {100 * result['best_accuracy']:.2f} %.",
    ]


def _own_parts(config: dict[str, Any], digests: dict[str, str]) -> Iterable[str]:
    """A paragraph on each part of the model that is not part of ape: whoever loads the model needs its file.

    `digests` has the SHA-256 of these files, as far as they are known.
    """
    for what, part in own_parts(config["scheme"], config["attention"]).items():
        needs = f"install the package of {code(part.__module__)}."
        if part.__module__.startswith("ape_cli."):
            file = code(f"{part.__module__.replace('.', '/')}.py")
            needs = f"get its file {file} from the\nauthor of the model, and add the folder that contains `ape_cli` to "
            needs += "`PYTHONPATH`." + (f"\nThe SHA-256 of its code is `{digests[what]}`." if what in digests else "")
        yield f"The {markdown(what)} is not part of `ape`. To load the model, {needs}"


def _usage(data: dict[str, Any]) -> str:
    """A sentence on how to predict."""
    if data.get("image"):
        height, width, channels = data["image"]
        return f"`model.predict(pixels)` takes uint8 [B, {height}, {width}, {channels}] and returns names of classes."
    if data["structure"] == "seq":
        return '`model.predict(["a b c"])` takes names of symbols, and returns those of the answer.'
    return '`model.predict(ape_cli.dataset.open(DATASET).split("test"))` returns the answer to each row.'


def _names(vocabulary: list[str]) -> str:
    """The first names of a vocabulary."""
    shown = ", ".join(f"{i} {markdown(name)}" for i, name in enumerate(vocabulary[:24]))
    return shown + (", …" if len(vocabulary) > 24 else "")


def _first_paragraph(task: str) -> str:
    """The first paragraph of the docstring of a task; its name if it is not known here."""
    try:
        text = inspect.getdoc(tasks.load(task)) or task
    except ApeError:
        text = task
    return markdown(" ".join(text.split("\n\n")[0].split()))


def _summary(scheme: str) -> str:
    """The first line of the file of a scheme, and its source."""
    loaded = position.load(scheme)
    return f"{(sys.modules[loaded.__module__].__doc__ or scheme).splitlines()[0]} Source: {loaded.source}."


def _changes(about: dict[str, Any]) -> str:
    """The settings that differ from the preset, in parentheses."""
    changed = settings_text(about["variant"])
    return f" ({markdown(changed)})" if changed else ""
