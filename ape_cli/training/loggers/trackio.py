"""Trackio: all metrics in a run of its own, with the configuration, in a database of this machine.

Source: https://huggingface.co/docs/trackio. It is an extra. Its environment variables apply: TRACKIO_DIR is
the folder of the database, and TRACKIO_SPACE_ID is a Space to which metrics are sent instead. The project is
TRACKIO_PROJECT, or `ape`. `trackio show --project ape` shows all runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout

from ape_cli.core.errors import RunError
from ape_cli.training.loggers import LoggedRun, MetricLogger


class Trackio(MetricLogger):
    """Logs each metric. A resumed run continues its run there, and repeats what was logged after its stored state."""

    needs = "trackio"
    extra = "trackio"

    def __init__(self, run: LoggedRun) -> None:
        """Start or continue the run."""
        import trackio

        try:
            with redirect_stdout(sys.stderr):  # it prints notes, and stdout is for results
                self.run = trackio.init(
                    project=os.environ.get("TRACKIO_PROJECT") or "ape",
                    name=run.name,
                    config=run.config.model_dump(mode="json"),
                    resume="allow" if run.step else "never",
                    embed=False,
                    auto_log_gpu=False,
                    auto_log_cpu=False,
                )
        except Exception as error:  # of the library, of its database, or of the network
            fix = "unset TRACKIO_SPACE_ID to write to this machine, or choose another logger"
            raise RunError("Trackio cannot start a run", got=f"{type(error).__name__}: {error}", fix=fix) from error

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Log the metrics."""
        self.run.log(dict(metrics), step=step)

    def close(self) -> None:
        """Write what is left, and end the run, so that nothing is left to be ended with the process."""
        import trackio

        with redirect_stdout(sys.stderr):
            trackio.finish()
