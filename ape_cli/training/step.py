"""One optimiser step: forward, backward and update by one batch.

Several ranks each work off their share of the batch. Each rank divides its summed loss by the number of labels in the
global batch, so that the sum of the gradients is that of one process, up to rounding.
"""

from __future__ import annotations

from torch import Tensor

from ape_cli.data.collation import Labelled
from ape_cli.evaluation.metrics import forward
from ape_cli.models.transformer import loss
from ape_cli.training.cuda_graphs import Replay
from ape_cli.training.schedule import learning_rate
from ape_cli.training.setup import Setup


class TrainingStep:
    """The training step of a run. On a GPU it is recorded as CUDA graphs (`cuda_graphs.py`)."""

    def __init__(self, setup: Setup) -> None:
        """`setup`: with the weights that training starts or resumes from."""
        self.setup, self.rate = setup, setup.config.lr_initial
        execution = setup.execution
        self.parallel = execution.group.parallel(setup.model)
        # steps of several processes wait for one another, and are not recorded
        records = execution.group.size == 1 and not execution.compiled and not setup.model.scheme.waits
        self.replay = Replay(self.update, execution.device, records) if setup.on_gpu else None

    def __call__(self, step: int, batch: Labelled) -> tuple[Tensor, Tensor]:
        """Train on one batch, with the learning rate of `step`, which counts from 0.

        Nothing in it waits for the device. Returns two scalars on the device: the summed loss in nats and the number
        of correct labels, both of this rank's rows.
        """
        self.rate = learning_rate(step, self.setup.steps, self.setup.config)
        for group in self.setup.optimiser.param_groups:
            if self.setup.on_gpu:
                group["lr"].fill_(self.rate)
            else:
                group["lr"] = self.rate
        labels, _ = batch.counts
        return self.replay(batch, labels) if self.replay else self.update(batch, labels)

    def update(self, there: Labelled, labels: int | Tensor) -> tuple[Tensor, Tensor]:
        """Forward, backward and update by a batch on the device. `labels`: their number in the global batch."""
        config, optimiser = self.setup.config, self.setup.optimiser
        scores = forward(self.parallel, there, config.precision)
        total = loss(scores, there.labels, there.blank, config.label_smoothing)
        optimiser.zero_grad(set_to_none=True)
        (total / labels * self.setup.execution.group.size).backward()  # what is made of it is the mean over ranks
        optimiser.step()
        correct = ((scores.detach().argmax(-1) == there.labels) & there.label_mask).sum()
        return total.detach(), correct
