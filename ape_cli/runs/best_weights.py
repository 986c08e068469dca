"""Whether stored weights are the best ones of a run, as its state or its result says."""

from __future__ import annotations

from typing import Any

from ape_cli.core.errors import RunError
from ape_cli.storage.paths import StoragePath


def are_best(path: StoragePath, about: dict[str, Any], best: dict[str, Any]) -> bool:
    """Compare the metadata `about` of the weights in `path` with `best`, the content of a state or a result.

    Returns False if the weights are others and the state holds the best ones. A kill leaves this, because the state is
    stored first. Early versions stored it last, so their weights may be newer than the state. Weights of still earlier
    versions do not say their step, and count as the best ones.

    Raises `RunError` if the weights are other ones.
    """
    step, wanted = about.get("step"), best.get("best_step")
    found, accuracy = about.get("validation_token_accuracy"), best.get("best_accuracy")
    if step is None or not wanted or (step, found) == (wanted, accuracy):  # a state without a validation has no best
        return True
    if best.get("holds_best"):
        return False
    is_early_state = "steps" not in best and best.get("holds_best") is None  # a result has steps
    if is_early_state and type(step) is type(wanted) is int and step > wanted:
        return True
    raise RunError(
        f"{path} does not have the best weights of the run",
        got=f"weights of step {step}, with validation accuracy {found}",
        allowed=f"those of step {wanted}, with validation accuracy {accuracy}",
        fix="restore the file, or start the run again with --overwrite",
    )
