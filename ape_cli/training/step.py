"""One optimiser step: forward pass, backward pass and update on one batch.

Each rank of a process group computes its share of the batch. It divides its summed loss by the number of labels in the
global batch, so that the sum of the gradients over the ranks is that of a single process, up to rounding.
Shapes: B rows, M labels, V ids.
"""

from __future__ import annotations

from torch import Tensor

from ape_cli.data.batches import Batch
from ape_cli.models.teacher_forcing import forward, loss
from ape_cli.training.cuda_graphs import Replay
from ape_cli.training.schedule import learning_rate
from ape_cli.training.setup import Setup


class TrainingStep:
    """The training step of a run. On a GPU it is recorded as CUDA graphs (`cuda_graphs.py`).

    setup: the run, with the weights that training starts or resumes from.
    """

    def __init__(self, setup: Setup) -> None:
        """Wrap the model for the process group, and decide whether steps are recorded."""
        self.setup, self.rate = setup, setup.config.lr_initial
        execution = setup.execution
        self.parallel = execution.group.parallel(setup.model)
        # the steps of several processes wait for one another, so they are not recorded
        records = execution.group.size == 1 and not execution.compiled
        self.replay = Replay(self.update, execution.device, records) if setup.on_gpu else None

    def __call__(self, step: int, batch: Batch) -> tuple[Tensor, Tensor]:
        """Train on one batch with the learning rate of `step`, which counts from 0. It does not wait for the device.

        Returns two scalars on the device: the summed loss in nats (floating point) and the number of correct labels
        (int64). Both are over the rows of this rank.
        """
        self.rate = learning_rate(step, self.setup.steps, self.setup.config)
        for group in self.setup.optimiser.param_groups:
            if self.setup.on_gpu:
                group["lr"].fill_(self.rate)
            else:
                group["lr"] = self.rate
        labels, _ = batch.counts
        return self.replay(batch, labels) if self.replay else self.update(batch, labels)

    def update(self, there: Batch, labels: int | Tensor) -> tuple[Tensor, Tensor]:
        """Train on a batch that is on the device, with the current learning rate. Returns the same as `__call__`.

        `labels`: the number of labels in the global batch, a scalar of shape [] on the device if the step is on a GPU.
        """
        config, optimiser = self.setup.config, self.setup.optimiser
        scores = forward(self.setup.model, there, config.precision, self.parallel)  # [B, M, V]
        total = loss(scores, there.labels, there.ignore_index, config.label_smoothing)
        optimiser.zero_grad(set_to_none=True)
        # the factor is the group size, because gradients are averaged over ranks
        (total / labels * self.setup.execution.group.size).backward()
        optimiser.step()
        correct = ((scores.detach().argmax(-1) == there.labels) & there.label_mask).sum()
        return total.detach(), correct
