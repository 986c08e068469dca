"""Which scheme is a special case of which other one: each relation sets parameters, and the difference is measured.

Every file of this folder has a list `RELATIONS`. Names that are not schemes are those of other publications, whose
formulas are computed by matrices.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from ape_cli.evaluation.algebra.relations._relation import Relation

__all__ = ["Relation", "relations"]


@cache
def relations() -> tuple[Relation, ...]:
    """All relations, from the files of this folder."""
    names = sorted(found.name for found in pkgutil.iter_modules(__path__) if not found.name.startswith("_"))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return tuple(relation for module in modules for relation in module.RELATIONS)
