"""What `ape train` prints: its data, the plan of --dry-run, and the result with what to compare it with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ape_cli.cli._app import with_results
from ape_cli.cli.console import accuracy_of, print_json, print_note, print_note_lines, print_result, scores_in_words
from ape_cli.core.errors import ApeError
from ape_cli.core.perplexity import perplexity, perplexity_text

if TYPE_CHECKING:
    from ape_cli.data.loader import Dataset
    from ape_cli.experiment import Experiment, ExperimentSpec
    from ape_cli.experiment.generalisation import ExtraEvaluations
    from ape_cli.runs.record import RunRecord
    from ape_cli.runs.registry import Registry
    from ape_cli.storage.paths import StoragePath
    from ape_cli.training.trial import Trial

_OTHERS = ("none", "sinusoidal")  # the schemes that every scheme is compared with


def print_plan(experiment: Experiment, tests: ExtraEvaluations, registry: Registry, as_json: bool) -> None:
    """Print what would be trained and evaluated, for --dry-run."""
    from ape_cli.experiment.generalisation import sizes_for
    from ape_cli.runs.record import settings_text

    config, data = experiment.config, experiment.data
    run = registry.run_for(config, data) if experiment.is_named else None
    lines: dict[str, Any] = {
        "run": run.name if run else None,
        "state": run.status if run and run.exists() else "new",
        "dataset": str(data.folder),
        "dataset_missing": data.missing,
        "structure": data.structure.expression,
        "read_as": experiment.reading.structure.expression,
        "variant": settings_text(experiment.variant),
        "generalise": sorted(sizes_for(data, tests.generalise)),  # also empty if the data would have to be generated
        "decode": tests.decode,
        "config": config.model_dump(mode="json"),
    }
    if as_json:
        print_json(lines)
        return
    print_result(f"run:       {lines['run'] or 'its name depends on the dataset'} ({lines['state']})")
    print_result(f"dataset:   {lines['dataset']}{' (to generate)' if lines['dataset_missing'] else ''}")
    print_result(f"positions: {lines['structure']}, read as {lines['read_as']}")
    print_result(f"settings:  {lines['variant'] or 'those of the preset'}")
    if tests.generalise:
        sizes = ", ".join(map(str, lines["generalise"])) or "multiples of the largest training size"
        print_result(f"sizes:     also evaluated at {sizes}")
    for name, value in lines["config"].items():
        print_result(f"  {name} = {json.dumps(value)}")


def note_data(experiment: Experiment) -> None:
    """Print the number of training rows and their mean size, and how many of the rows a short training can use."""
    from ape_cli.experiment.datasets import tell_overlap
    from ape_cli.reports.builtin import size_words

    config, data = experiment.config, experiment.data
    rows = data.plan.rows["train"]
    if data.kind == "image":
        print_note(f"data: {rows:,} training images")
    else:
        print_note(
            f"data: {rows:,} training rows, mean {size_words(data.task, str(data.structure))[0]} {data.mean_size:g}"
        )
    most = (config.steps or rows) * config.batch_size  # the last batch of the rows may be short
    if most < rows:
        several = f"{config.steps:,} steps of up to {config.batch_size} rows"
        print_note(f"data: this run uses at most {most:,} of them ({several}); --set epochs=1 uses each row once")
    tell_overlap(data)


@dataclass(frozen=True)
class Comparison:
    """What a test score is compared with: token accuracies on the same test split, or accuracies of images.

    `constant_guess` and `counted` are those of `count_baselines`. `none` is the score of the registered run of the same
    model without positions, or None if there is no such run. `missing` are the options of comparable runs that do not
    exist yet.
    """

    constant_guess: float = 0.0
    counted: dict[str, dict[str, float]] = field(default_factory=dict)
    none: float | None = None
    missing: tuple[ExperimentSpec, ...] = ()


def compared(data: Dataset, registry: Registry, options: ExperimentSpec) -> Comparison:
    """What the test score of a run with these options is compared with."""
    from ape_cli.evaluation.count_baselines import count_baselines
    from ape_cli.evaluation.evaluate import name_of
    from ape_cli.experiment import complete

    none, missing = None, []
    for other in map(options.with_scheme, _OTHERS):
        with suppress(ApeError):  # its run may be damaged, or it may not be able to read this data
            run = registry.run_for(complete(other.config(data.kind), data), data)
            evaluation = run.evaluation(name_of(data, "test", "teacher")) if run.exists() else None
            if evaluation is None and other.scheme != options.scheme:
                missing.append(other)
            elif evaluation is not None and other.scheme == "none":
                none = evaluation["overall"]["token_accuracy"]
    baselines = count_baselines(data, "test")
    return Comparison(baselines.constant_guess, baselines.counted, none, tuple(missing))


def print_trained(
    done: Trial, comparison: Comparison | None, commands: list[str], results: StoragePath, as_json: bool
) -> None:
    """Print the result of training, the scores on the test split, and what they are compared with.

    `commands` train the models to compare with that have no run. `results`: the folder of the runs.
    """
    config, result, test = done.run.record.config, done.run.record.outcome, done.evaluation
    if as_json:
        lines = {"run": done.run.name, "trained": done.trained, **result.model_dump()}
        baselines = comparison and {key: getattr(comparison, key) for key in ("constant_guess", "counted", "none")}
        print_json(
            lines | {"test": test, "baselines": baselines} | ({"other_tests": done.others} if done.others else {})
        )
        return
    kind = config.kind
    accuracy = accuracy_of(kind)
    pace = f"{result.tokens_per_second:,.0f} {'images' if kind == 'image' else 'tokens'}/s"
    print_result(f"{done.run.name}: {result.steps} steps in {result.seconds:.0f} s, {pace}")
    print_result(f"  validation {accuracy} {result.best_accuracy:.2%}, step {result.best_step}")
    if test is None or comparison is None:
        return
    print_result(f"  test {scores_in_words(test['overall'], kind)}")
    for other in done.others:
        print_result(f"  {_at_sizes(other)}")
    print_result(f"compare its test {accuracy} with")
    for score, whose in _compared_with(done.run.record, comparison):
        print_result(f"  {score:7.2%}  {whose}", indent=11)
    if line := _published(done.run.record, test["overall"]["cross_entropy"]):
        print_result(line)
    report = with_results("report", results)
    if commands:
        print_note_lines("to compare it with other schemes on the same data:\n  " + "\n  ".join([*commands, report]))
    else:
        print_note(f"`{report}` shows all scores side by side")


def _compared_with(record: RunRecord, comparison: Comparison) -> Iterator[tuple[float, str]]:
    """The scores to compare a run with, and whose they are."""
    config = record.config
    yield comparison.constant_guess, f"always the most frequent {'class' if config.kind == 'image' else 'symbol'}"
    if comparison.counted:
        scores = {name: score["token_accuracy"] for name, score in comparison.counted.items()}
        best = max(scores, key=lambda name: scores[name])
        yield scores[best], f"the best simple rule ({best})"
    if comparison.none is not None and config.scheme != "none":
        yield comparison.none, "the same model without positions (scheme none)"


def _published(record: RunRecord, cross_entropy: float) -> str:
    """The perplexity of a run beside the published one of its scheme, task and order; empty if there is none."""
    from ape_cli.reports import published
    from ape_cli.reports.descriptions import form_of
    from ape_cli.reports.evaluations import task_of
    from ape_cli.runs.record import settings_text

    config, data, source = record.config, record.dataset, published.load("neurips")
    column = task_of({"task": data.task, "order": data.order, "form": form_of(data)})
    number = source.number(config.scheme, settings_text(record.variant), column, "perplexity")
    if number is None:
        return ""
    ours = f"its test perplexity is {perplexity_text(perplexity(cross_entropy))}"
    return f"{ours}; in {source.called}, with its own model and data, {number.value:.2f} ±{number.spread:.2f}"


def _at_sizes(evaluation: dict[str, Any]) -> str:
    """The scores of a further evaluation: by size on test rows at other sizes, else over all test rows."""
    how = f"test, {evaluation['decode']} decoding"
    if not evaluation.get("test_only"):
        return f"{how}: {scores_in_words(evaluation['overall'], 'sequence')}"
    scores = (f"{part['size']} {part['exact_match']:.2%}" for part in evaluation["by_size"])
    return f"{how}, exact match at size {', '.join(scores)}"
