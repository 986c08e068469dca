"""What `ape train` prints: the plan of --dry-run, and the result beside two baselines."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ape_cli.cli.console import accuracy_of, answer, guessed, note, note_lines, say, scores_in_words
from ape_cli.core.errors import ApeError

if TYPE_CHECKING:
    from ape_cli.data.loader import Dataset
    from ape_cli.experiment import Experiment, ExperimentOptions
    from ape_cli.experiment.generalisation import FurtherTests
    from ape_cli.runs.registry import Registry
    from ape_cli.training.trial import Trial


def print_plan(experiment: Experiment, tests: FurtherTests, registry: Registry, as_json: bool) -> None:
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
        "read_as": experiment.read.expression,
        "variant": settings_text(experiment.variant),
        "generalise": sorted(sizes_for(data, tests.generalise)),  # also empty if the data would have to be generated
        "decode": tests.decode,
        "config": config.model_dump(mode="json"),
    }
    if as_json:
        answer(lines)
        return
    say(f"run:       {lines['run'] or 'its name depends on the dataset'} ({lines['state']})")
    say(f"dataset:   {lines['dataset']}{' (to generate)' if lines['dataset_missing'] else ''}")
    say(f"positions: {lines['structure']}, read as {lines['read_as']}")
    say(f"settings:  {lines['variant'] or 'those of the preset'}")
    if tests.generalise:
        sizes = ", ".join(map(str, lines["generalise"])) or "multiples of the largest training size"
        say(f"sizes:     also evaluated at {sizes}")
    for name, value in lines["config"].items():
        say(f"  {name} = {json.dumps(value)}")


def compared(data: Dataset, registry: Registry, baseline: ExperimentOptions) -> dict[str, Any]:
    """The test scores of two baselines on a dataset.

    `constant_guess` is the score of always answering with the most frequent symbol or class. `none` is the token
    accuracy of the registered run of `baseline`, a model without positions, or None if there is no such run.
    """
    from ape_cli.evaluation.count_baselines import majority_baseline
    from ape_cli.evaluation.evaluate import name_of
    from ape_cli.experiment import complete

    none = None
    with suppress(ApeError):  # the run may be damaged, and some settings are for the scheme alone
        run = registry.run_for(complete(baseline.config(data.kind), data), data)
        if run.exists() and (evaluation := run.evaluation(name_of(data, "test", "teacher"))):
            none = evaluation["overall"]["token_accuracy"]
    return {"constant_guess": majority_baseline(data.split("test")), "none": none}


def print_trained(done: Trial, baselines: dict[str, Any] | None, again: str, as_json: bool) -> None:
    """Print the result of training, the scores on the test split and those of baselines.

    `again` is the command that trains the same model without positions.
    """
    config, result, test = done.run.known.config, done.run.known.outcome, done.evaluation
    if as_json:
        lines = {"run": done.run.name, "trained": done.trained, **result.model_dump()}
        answer(lines | {"test": test, "baselines": baselines} | ({"other_tests": done.others} if done.others else {}))
        return
    kind = config.kind
    accuracy = accuracy_of(kind)
    pace = f"{result.tokens_per_second:,.0f} {'images' if kind == 'image' else 'tokens'}/s"
    say(f"{done.run.name}: {result.steps} steps in {result.seconds:.0f} s, {pace}")
    say(f"  validation {accuracy} {result.best_accuracy:.2%}, step {result.best_step}")
    if test is None or baselines is None:
        return
    say(f"  test {scores_in_words(test['overall'], kind)}")
    for other in done.others:
        say(f"  {_at_sizes(other)}")
    say(f"  test {guessed(accuracy, baselines['constant_guess'], kind == 'image')}")
    if config.scheme == "none":
        return
    if baselines["none"] is None:
        note_lines(f"to compare it with a model without positions:\n  {again}")
    else:
        say(f"  test {accuracy} without positions (scheme none): {baselines['none']:.2%}")
        note("`ape report` shows all scores side by side")


def _at_sizes(evaluation: dict[str, Any]) -> str:
    """The scores of a further evaluation: by size on test rows at other sizes, else over all test rows."""
    how = f"test, {evaluation['decode']} decoding"
    if not evaluation.get("test_only"):
        return f"{how}: {scores_in_words(evaluation['overall'], 'sequence')}"
    scores = (f"{part['size']} {part['exact_match']:.2%}" for part in evaluation["by_size"])
    return f"{how}, exact match at size {', '.join(scores)}"
