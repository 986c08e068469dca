"""Experiments: what is trained on which data, and as which structure its positions are read.

`resolve` turns an `ExperimentSpec` into an `Experiment`, once. Training, evaluation and sweeps take it as it is.

| module | contents |
|---|---|
| `spec` | what a user asks for, how layers of it are merged, and the configuration it gives |
| `spec_files` | the files of `ape train --config`: TOML, or the `run.json` of a run |
| `choice` | the choice of the dataset that a spec describes |
| `datasets` | a dataset that may not have been generated yet, and what runs recorded of datasets |
| `reading` | the structure as which a scheme reads a dataset, and images as tokens |
| `generalisation` | the evaluations after training, and test rows at other sizes than those of training |
| `mapping` | the map of positions, and what it does not fit to |
| `resolution` | `Experiment`, `resolve`, and the fields of a configuration that scheme, attention and data decide |
"""

from ape_cli.experiment.resolution import Experiment, complete, of, of_run, resolve
from ape_cli.experiment.spec import ExperimentSpec

__all__ = ["Experiment", "ExperimentSpec", "complete", "of", "of_run", "resolve"]
