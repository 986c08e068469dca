"""Which scheme is a special case of which other one: each relation sets parameters, and the difference is measured.

Every file of this folder has a list `RELATIONS`. A relation counts only if its schemes, and the options that it needs,
are there. Names that are not schemes are those of other publications, whose formulas are computed by matrices.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from ape_cli import position
from ape_cli.evaluation.algebra.relations._relation import Relation

__all__ = ["Relation", "relations"]


@cache
def relations() -> tuple[Relation, ...]:
    """All relations whose schemes are there, from the files of this folder."""
    names = sorted(found.name for found in pkgutil.iter_modules(__path__) if not found.name.startswith("_"))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return tuple(relation for module in modules for relation in module.RELATIONS if _known(relation))


def _known(relation: Relation) -> bool:
    """Whether the schemes of a relation exist and have the options that it needs."""
    for one in (relation.special, relation.general):
        if one.formula is None and not (one.name in position.names() and one.options.keys() <= _options(one.name)):
            return False
    return True


def _options(name: str) -> set[str]:
    """The options that a relation can use."""
    return {"decay", "max_size", *position.options(name)}
