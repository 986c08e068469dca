"""Structures as fields of pydantic models: a `Structure` in memory, its expression in JSON."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator

from ape_cli.core.errors import UsageError, brief
from ape_cli.structure.algebras import Structure
from ape_cli.structure.expressions import parse_structure


def _parsed(given: Any) -> Structure:
    if not isinstance(given, str | Structure):
        raise UsageError("bad structure", got=brief(given), allowed="an expression", fix="give it as text")
    return parse_structure(given)


def _written(found: Structure) -> str:
    return found.expression


StructureField = Annotated[Structure, PlainValidator(_parsed), PlainSerializer(_written, return_type=str)]
