"""Experiments: what is trained on which data, and as which structure its positions are read.

`find_dataset` finds the dataset that an `ExperimentSpec` names, and `resolve` turns both into an `Experiment`, once.
Training, evaluation and sweeps take it as it is.

| module | contents |
|---|---|
| `spec` | what a user asks for, how layers of it are merged, and the configuration it gives |
| `spec_files` | the files of `ape train --config`: TOML, or the `run.json` of a run |
| `choice` | the dataset that a spec names, which may be missing: its plan, and its generation |
| `reading` | as which structure and by which map a model reads positions, and images as tokens |
| `generalisation` | the evaluations after training, and test rows at other sizes than those of training |
| `resolution` | `Experiment`, `resolve`, and the fields of a configuration that scheme, attention and data decide |
"""

from ape_cli.experiment.choice import find_dataset
from ape_cli.experiment.resolution import Experiment, complete, of, resolve
from ape_cli.experiment.spec import ExperimentSpec

__all__ = ["Experiment", "ExperimentSpec", "complete", "find_dataset", "of", "resolve"]
