"""What `ape train` prints at the end: the scores of the run, and scores to compare them with."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ape_cli.cli.console import accuracy_of, guessed, note, note_lines, say, scores_in_words
from ape_cli.core.errors import ApeError

if TYPE_CHECKING:  # imported by the command when it runs, because torch is slow to import
    from ape_cli.data.loader import Dataset
    from ape_cli.experiment import ExperimentOptions
    from ape_cli.runs.registry import Registry
    from ape_cli.training.trial import Trial


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
        if run.exists() and (found := run.evaluation(name_of(data, "test", "teacher"))):
            none = found["overall"]["token_accuracy"]
    return {"constant_guess": majority_baseline(data.split("test")), "none": none}


def print_trained(done: Trial, baselines: dict[str, Any] | None, again: str) -> None:
    """Print the result of training, the scores on the test split and those of baselines.

    `again` is the command that trains the same model without positions.
    """
    config, result, test = done.run.known.config, done.run.known.outcome, done.evaluation
    kind = config.kind
    accuracy = accuracy_of(kind)
    pace = f"{result.tokens_per_second:,.0f} {'images' if kind == 'image' else 'tokens'}/s"
    say(f"{done.run.name}: {result.steps} steps in {result.seconds:.0f} s, {pace}")
    say(f"  validation {accuracy} {result.best_accuracy:.2%}, step {result.best_step}")
    if test is None or baselines is None:
        return
    say(f"  test {scores_in_words(test['overall'], kind)}")
    say(f"  test {guessed(accuracy, baselines['constant_guess'], kind == 'image')}")
    if config.scheme == "none":
        return
    if baselines["none"] is None:
        note_lines(f"to compare it with a model without positions:\n  {again}")
    else:
        say(f"  test {accuracy} without positions (scheme none): {baselines['none']:.2%}")
        note("`ape report` shows all scores side by side")
