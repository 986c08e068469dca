"""Structures as fields of pydantic models."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ValidationError

from ape_cli.structure import Grid, Seq, StructureField


class Model(BaseModel, strict=True):
    own: StructureField
    wanted: StructureField | None = None


def test_it_is_an_expression_in_json_and_a_structure_in_memory() -> None:
    made = Model.model_validate({"own": "seq*seq"})
    assert made.own == Grid((Seq(), Seq()))
    assert made == Model(own=Grid((Seq(), Seq())))
    assert made.model_dump() == {"own": "grid(2)", "wanted": None}
    assert Model.model_validate_json(made.model_dump_json()) == made


@pytest.mark.parametrize("given", ["tree(1)", "", "(" * 5000, 3, ["seq"]])
def test_anything_else_is_refused(given: object) -> None:
    with pytest.raises(ValidationError, match="bad structure"):
        Model.model_validate({"own": given})
