"""The options of `ape sweep` that describe its grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ape_cli.cli._help import GRID
from ape_cli.cli.options import option
from ape_cli.core.errors import UsageError, brief


@dataclass(frozen=True)
class GridOptions:
    """The grid. Its fields replace those of a file."""

    PANEL: ClassVar = GRID
    schemes: str | None = option("Schemes, for example rope,orthogonal-seq.")
    tasks: str | None = option("Tasks. Each has a dataset with the sizes of the preset.")
    data: list[str] | None = option("Existing dataset; may be repeated.")
    orders: str | None = option("Orders of the nodes of trees: breadth,depth,breadth-to-depth,…")
    seeds: str | None = option("Seeds, for example 42,43,44 or 42-44.")
    structures: str | None = option("Structures as which positions are read.")
    attentions: str | None = option("Kinds of attention.")
    preset: str | None = option("paper, medium, small or tiny. Default: paper on a GPU, else small.")
    precision: str | None = option("Precision: fp32, tf32 (only on GPUs) or bf16.")
    settings: list[str] | None = option(
        "Values of a field of the configuration; may be repeated.", "--set", metavar="KEY=V,V"
    )

    def fields(self) -> dict[str, Any]:
        """The options that are given, as fields of a grid. Raises `UsageError` if one is not valid."""
        from ape_cli.runs.config import parse_values

        lists = ("schemes", "tasks", "orders", "structures", "attentions")
        fields: dict[str, Any] = {key: _list(text) for key in lists if (text := getattr(self, key)) is not None}
        if self.data:
            fields |= {"data": self.data} | ({} if self.tasks else {"tasks": []})
        elif self.tasks:
            fields["data"] = []
        fields |= {} if self.seeds is None else {"seeds": _seeds(self.seeds)}
        fields |= {key: value for key in ("preset", "precision") if (value := getattr(self, key)) is not None}
        return fields | ({"set": parse_values(self.settings)} if self.settings else {})


def _list(text: str) -> list[str]:
    """Split a list with commas, without repetitions."""
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _seeds(text: str) -> list[int]:
    """Parse seeds and ranges of seeds. Raises `UsageError` if they are not valid."""
    found: list[int] = []
    for part in _list(text):
        first, dash, last = part.partition("-")
        last = last if dash else first
        digits = all(text.isdecimal() and len(text) < 20 for text in (first, last))
        if not digits or not 0 <= int(last) - int(first) <= 10_000:
            allowed = "whole numbers, and ranges from the lower to the higher"
            raise UsageError("bad --seeds", got=brief(part), allowed=allowed, fix="--seeds 42,43,44, or 42-44")
        found += range(int(first), int(last) + 1)
    return found


def shard_of(text: str | None) -> tuple[int, int]:
    """Parse I/N. Raises `UsageError` if it is not valid."""
    number, slash, of = ("1/1" if text is None else text).partition("/")
    digits = all(part.isdecimal() and len(part) < 10 for part in (number, of))
    if not (slash and digits and 1 <= int(number) <= int(of)):
        raise UsageError(
            "bad --shard", got=brief(text), allowed="I/N with I from 1 to N", fix="for example --shard 2/8"
        )
    return int(number), int(of)
