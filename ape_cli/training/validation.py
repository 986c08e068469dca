"""Validation: the scores of the current weights, and whether these weights are the best so far.

The best weights have the highest token accuracy on the validation split. Of weights with equal accuracy the first are
kept, or, for images, those with the lower loss. Token accuracy is a ratio of two sums over the whole split, without
padding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ape_cli.data.loader import ImageSplit, Split
from ape_cli.evaluation.metrics import MetricSums, teacher_forced
from ape_cli.models.checkpoint import TrainState
from ape_cli.training.meter import diverged
from ape_cli.training.setup import Setup


@dataclass(frozen=True)
class ValidationScores:
    """The scores of one validation."""

    validation: MetricSums
    test: MetricSums | None
    loss: float  # decides between equal accuracies: nats for each token, or 0 if the loss does not decide

    def is_best(self, at: TrainState) -> bool:
        """Whether these weights are better than the best weights so far."""
        return (self.validation.token_accuracy, -self.loss) > (at.best_accuracy, -at.best_loss)

    def metrics(self, kept: bool) -> tuple[dict[str, float], dict[str, float]]:
        """The metrics of the validation split, and those of the test split. The latter are empty without a test split.

        `kept`: whether these are the best weights so far.
        """
        found = {
            "validation_loss": self.validation.cross_entropy,
            "validation_token_accuracy": self.validation.token_accuracy,
        }
        if self.test is None:
            return found, {}
        test = {"test_loss": self.test.cross_entropy, "test_token_accuracy": self.test.token_accuracy, "kept": kept}
        return found, test


class Validator:
    """Scores the weights of a run. Each rank of a process group scores its share and gets the scores of all ranks.

    setup: the run.
    """

    def __init__(self, setup: Setup) -> None:
        """Keep the setup, whose model is scored."""
        self.setup = setup

    def scores(self, step: int) -> ValidationScores:
        """The scores of the weights after `step` steps. Raises `RunError` if a loss is not finite."""
        tally = self.score(self.setup.validation)
        test = None if self.setup.test is None else self.score(self.setup.test)
        if not all(math.isfinite(found.cross_entropy) for found in (tally, test) if found is not None):
            raise diverged(step, self.setup.steps)
        return ValidationScores(tally, test, tally.cross_entropy if self.setup.config.ties_by_loss else 0.0)

    def score(self, split: Split | ImageSplit) -> MetricSums:
        """The metric sums of a split over all ranks."""
        config, execution = self.setup.config, self.setup.execution
        batches = split.batches(config.batch_size, share=execution.group.share, **self.setup.scoring_options)
        sums = teacher_forced(self.setup.model, batches, execution.device, config.precision)
        return execution.group.all_reduce_metrics(sums)
