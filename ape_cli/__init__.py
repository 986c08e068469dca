"""`ape` compares positional encodings: it generates structured datasets, trains one transformer, and prints tables.

The modules in `__all__` are the public Python surface, and each of them has an example in its docstring. They are
imported when they are first used, because some of them import torch. `load` loads a model that `ape export` wrote; it
returns an `ape_cli.evaluation.sharing.trained_model.TrainedModel`.

| module | contents |
|---|---|
| `adapters` | the encodings in attention of torch and of `transformers` |
| `attention` | kinds of attention, and the scores that they are made of |
| `dataset` | opens a dataset and reads its batches |
| `errors` | the exceptions that the other modules raise |
| `position` | positional encoding schemes |
| `registry` | opens a results folder and lists its runs |
| `tasks` | draws the samples of a task |

    >>> import ape_cli
    >>> "rope" in ape_cli.position.names()
    True
"""

import importlib
import os
import sys

TYPE_CHECKING = False  # a type checker knows the name; the module typing is not imported here
if TYPE_CHECKING:
    from typing import Any

    from ape_cli import adapters, attention, dataset, errors, position, registry, tasks
    from ape_cli.evaluation.sharing.trained_model import load

__all__ = ["adapters", "attention", "dataset", "errors", "load", "position", "registry", "tasks"]

# An `ape_cli` folder elsewhere on the Python path adds plug-ins. Another installation of this package does not.
# Like `pkgutil.extend_path`, but `python -m ape_cli` must import nothing here that the current folder could replace.
__path__ += [
    folder
    for folder in dict.fromkeys(f"{entry or os.curdir}/{__name__}" for entry in sys.path)
    if os.path.isdir(folder) and not os.access(f"{folder}/__init__.py", os.F_OK)  # noqa: PTH112
]

if TYPE_CHECKING:
    __version__: str  # the version of the installed package, which comes from the tag of its commit
else:  # a type checker shall report any other name

    def __getattr__(name: str) -> "Any":
        """A public module or `load`, imported on its first use, or the version."""
        if name == "load":
            return importlib.import_module(f"{__name__}.evaluation.sharing.trained_model").load
        if name == "__version__":
            return importlib.import_module(f"{__name__}.core.runtime").version()
        if name in __all__:
            return importlib.import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
