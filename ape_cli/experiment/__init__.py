"""Experiments: what is trained on which data, and as which structure its positions are read.

`resolve` turns options into an `Experiment`, once. Training, evaluation and sweeps take it as it is.

| module | contents |
|---|---|
| `options` | what a command asks for, and the `run.json` of `ape train --config` |
| `experiment_file` | the TOML file of `ape train --config` |
| `choice` | the choice of the dataset that options describe |
| `datasets` | a dataset that may not have been generated yet, and what runs recorded of datasets |
| `reading` | the structure as which a scheme reads a dataset, and images as tokens |
| `generalisation` | the evaluations after training, and test rows at other sizes than those of training |
| `mapping` | the map of positions, and what it does not fit to |
| `resolution` | `Experiment`, `resolve`, and the fields of a configuration that scheme, attention and data decide |
"""

from ape_cli.experiment.options import ExperimentOptions
from ape_cli.experiment.resolution import Experiment, complete, of, of_run, resolve

__all__ = ["Experiment", "ExperimentOptions", "complete", "of", "of_run", "resolve"]
