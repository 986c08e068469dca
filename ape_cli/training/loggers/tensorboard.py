"""TensorBoard: every metric as a scalar, in event files in `results/runs/RUN/logs/tensorboard/`.

Source: https://www.tensorflow.org/tensorboard. `tensorboard --logdir results/runs` shows all runs. The `tensorboard`
package is an extra: `pip install 'ape-cli[tensorboard]'`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ape_cli.core.errors import UsageError
from ape_cli.training.loggers import LoggedRun, MetricLogger


class TensorBoard(MetricLogger):
    """Writes scalars with the names of the metrics. A resumed run hides what was logged after its stored state."""

    needs = "tensorboard"

    def __init__(self, run: LoggedRun) -> None:
        from torch.utils.tensorboard import SummaryWriter

        folder = run.folder / "tensorboard"
        if not isinstance(folder, Path):
            raise UsageError(
                "TensorBoard's files cannot be written to an object store",
                got=str(folder),
                allowed="a folder of this machine",
                fix="leave --log tensorboard out, or use --log json-lines",
            )
        self.writer = SummaryWriter(str(folder), purge_step=run.step + 1 if run.step else None)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            self.writer.add_scalar(name, value, step)

    def close(self) -> None:
        self.writer.close()
