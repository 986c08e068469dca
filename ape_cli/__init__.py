"""`ape` compares positional encodings: it generates structured datasets, trains one transformer, and prints tables.

The modules below are the public Python interface. Each is imported on first use, because some of them import torch.

| module | contents |
|---|---|
| `load` | load a model written by `ape export`, and predict |
| `position` | positional encoding schemes, and the base class for your own |
| `attention` | kinds of attention, and the logits of a scheme |
| `tasks` | draw samples of a task, and the base class for your own |
| `dataset` | open a dataset and read its batches |
| `registry` | open a results folder and list its runs |
| `adapters` | use a scheme in PyTorch's attention functions, or in a Llama or T5 of `transformers` |
| `errors` | the exceptions that these modules raise |

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
