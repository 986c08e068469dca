"""Experiments: what is trained on which data, and as which structure its positions are read.

`resolve` turns options into an `Experiment`, once. Training, evaluation and sweeps take it as it is.

| module | contents |
|---|---|
| `options` | what a command asks for, and the file of `ape train --config` |
| `reading` | the structure as which a scheme reads a dataset |
| `images` | how images become tokens, and their augmentation |
| `completion` | the fields of a configuration that scheme, attention and data decide |
| `datasets` | the dataset that options name, which may not have been generated yet |
| `resolution` | `Experiment` and `resolve` |
"""

from ape_cli.experiment.completion import complete
from ape_cli.experiment.options import ExperimentOptions
from ape_cli.experiment.resolution import Experiment, of, of_run, resolve

__all__ = ["Experiment", "ExperimentOptions", "complete", "of", "of_run", "resolve"]
