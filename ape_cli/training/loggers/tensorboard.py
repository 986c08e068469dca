"""TensorBoard: all metrics as scalars, in event files in `results/runs/RUN/logs/tensorboard/`.

Source: https://www.tensorflow.org/tensorboard. `tensorboard --logdir results/runs` shows all runs. It is an extra.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ape_cli.core.errors import UsageError
from ape_cli.training.loggers import LoggedRun, MetricLogger


class TensorBoard(MetricLogger):
    """Writes each metric as a scalar of its name. A resumed run hides what was logged after its stored state."""

    needs = "tensorboard"
    extra = "tensorboard"

    def __init__(self, run: LoggedRun) -> None:
        """Open the event file. Raises `UsageError` if the results are in an object store."""
        from torch.utils.tensorboard import SummaryWriter

        folder = run.folder / "tensorboard"
        if not isinstance(folder, Path):
            fix = "use the logger json-lines, or a local folder"
            raise UsageError("TensorBoard's files cannot be written to an object store", got=str(folder), fix=fix)
        self.writer = SummaryWriter(str(folder), purge_step=run.step + 1 if run.step else None)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write each metric as a scalar."""
        for name, value in metrics.items():
            self.writer.add_scalar(name, value, step)

    def flush(self) -> None:
        """Write the metrics that the writer still holds."""
        self.writer.flush()

    def close(self) -> None:
        """Close the event file."""
        self.writer.close()
