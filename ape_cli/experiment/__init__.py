"""Experiments: what is trained on which data, and as which structure its positions are read.

`find_dataset` finds the dataset that a request names, and `resolve` turns the request and the dataset into an
`Experiment`, once. Training, evaluation and sweeps take it as it is.

| module | contents |
|---|---|
| `options` | what a command asks for, and the `run.json` of `ape train --config` |
| `experiment_file` | the TOML file of `ape train --config` |
| `choice` | the dataset that a request names |
| `datasets` | a dataset that may be missing: its plan, and its generation |
| `reading` | as which structure and by which map a model reads positions, and images as tokens |
| `generalisation` | the evaluations after training, and test rows at other sizes than those of training |
| `resolution` | `Experiment`, `resolve`, and the fields of a configuration that scheme, attention and data decide |
"""

from ape_cli.experiment.choice import find_dataset
from ape_cli.experiment.options import ExperimentOptions
from ape_cli.experiment.resolution import Experiment, complete, of, resolve

__all__ = ["Experiment", "ExperimentOptions", "complete", "find_dataset", "of", "resolve"]
