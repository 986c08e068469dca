"""The exceptions of `ape_cli`. All are subclasses of `ApeError`.

>>> from ape_cli import errors, tasks
>>> try:
...     tasks.make("revers")
... except errors.UsageError as error:
...     print(error.what, error.got, sep="; ")
unknown task; 'revers'
"""

from ape_cli.core.errors import ApeError, BusyError, DataError, PlaceError, RunError, UsageError

__all__ = ["ApeError", "BusyError", "DataError", "PlaceError", "RunError", "UsageError"]
