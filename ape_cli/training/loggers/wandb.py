"""Weights & Biases: all metrics in a run of its own, with the configuration.

Source: https://docs.wandb.ai. The `wandb` package is an extra: `pip install 'ape-cli[wandb]'`. Its environment
variables apply. The project is WANDB_PROJECT, or `ape`. WANDB_MODE=offline only writes files, and `wandb sync` uploads
them later. They are in `results/runs/RUN/logs/wandb/`, or in WANDB_DIR.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ape_cli.core.errors import RunError
from ape_cli.storage import files
from ape_cli.storage.json_files import read_json
from ape_cli.training.loggers import LoggedRun, MetricLogger

_PROJECT = "ape"
_MARK = "wandb.json"  # the file beside the logs that names the run, so that it is found again


class WeightsAndBiases(MetricLogger):
    """Logs all metrics of one step as one row. A resumed run continues its run there; repeated steps are ignored."""

    needs = "wandb"
    extra = "wandb"

    def __init__(self, run: LoggedRun) -> None:
        """Start or continue the run. Raises `RunError` if that is not possible, for example without an API key."""
        import wandb

        # it reads its environment variables only once in a process
        given: dict[str, Any] = {"project": os.environ.get("WANDB_PROJECT") or _PROJECT}
        if "WANDB_DIR" not in os.environ and isinstance(run.folder, Path):
            given["dir"] = files.folder(run.folder)
        if run.step and (known := _known(run)):
            given |= {"id": known, "resume": "allow"}
        config = json.loads(run.config.model_dump_json())
        try:
            # without a capture of the terminal, which would break progress bars
            self.run = wandb.init(
                name=run.name, config=config, settings=wandb.Settings(console="off"), reinit="create_new", **given
            )
        except wandb.Error as error:
            raise RunError(
                "Weights & Biases cannot start a run",
                got=str(error),
                fix="`wandb login`, or set WANDB_MODE=offline, or leave --log wandb out",
            ) from error
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


def _known(run: LoggedRun) -> str | None:
    """The id of the run that an earlier part of the training has started; None if it is not known."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return str(read_json(run.folder / _MARK)[1]["id"])
    return None
