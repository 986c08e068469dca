"""Weights & Biases: all metrics in a run of its own, with the configuration.

Source: https://docs.wandb.ai. It is an extra. Its environment variables apply. The project is WANDB_PROJECT, or `ape`.
WANDB_MODE=offline only writes files, in `results/runs/RUN/logs/wandb/` or WANDB_DIR; `wandb sync` uploads them later.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ape_cli.core.errors import RunError
from ape_cli.storage import files
from ape_cli.training.loggers import LoggedRun, MetricLogger

_MARK = "wandb.json"  # the file beside the logs that names the run, so that it is found again


class WeightsAndBiases(MetricLogger):
    """Logs all metrics of one step as one row. A resumed run continues its run there; repeated steps are ignored."""

    needs = "wandb"
    extra = "wandb"

    def __init__(self, run: LoggedRun) -> None:
        """Start or continue the run. Raises `RunError` if that is not possible, for example without an API key."""
        import wandb

        # it reads its environment variables only once in a process
        options: dict[str, Any] = {"project": os.environ.get("WANDB_PROJECT") or "ape"}
        if "WANDB_DIR" not in os.environ and isinstance(run.folder, Path):
            options["dir"] = files.folder(run.folder)
        if run.step:
            with suppress(OSError, ValueError, KeyError, TypeError):  # without its id, a new run is started there
                options |= {"id": str(files.read_json(run.folder / _MARK)["id"]), "resume": "allow"}
        try:
            # without a capture of the terminal, which would break progress bars
            settings, config = wandb.Settings(console="off"), run.config.model_dump(mode="json")
            self.run = wandb.init(name=run.name, config=config, settings=settings, reinit="create_new", **options)
        except wandb.Error as error:
            fix = "`wandb login`, or set WANDB_MODE=offline, or choose another logger"
            raise RunError("Weights & Biases cannot start a run", got=str(error), fix=fix) from error
        self.exit_code = 0
        files.write_json(run.folder / _MARK, {"id": self.run.id})

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add the metrics to the row of the step."""
        self.run.log(dict(metrics), step=step)

    def failed(self, error: BaseException) -> None:
        """Have the run marked as failed. If the training is resumed, it runs again."""
        self.exit_code = 1

    def close(self) -> None:
        """Write what is left, and end the run."""
        self.run.finish(self.exit_code)
