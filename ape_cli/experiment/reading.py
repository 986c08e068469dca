"""The structure as which a scheme reads the positions of a dataset."""

from __future__ import annotations

from ape_cli import position
from ape_cli.core.errors import DataError, UsageError
from ape_cli.runs.config import Config
from ape_cli.structure import LinePlace, Seq, Structure, columns, factors_of, left_out


class UnreadableError(DataError):
    """A scheme cannot read a dataset."""


def reading(scheme: str, data: Structure, chosen: Structure | None = None) -> Structure:
    """The structure as which a scheme reads positions of data of structure `data`.

    This is `chosen` if it is given. Otherwise it is the data's own structure; or the linearisation, if the scheme
    cannot read the data's own or is `flat`; or else the first factor of a product that the scheme can read. The
    linearisation is `seq`, or `line` if the data has a factor `seq` of its own.

    Raises `UsageError` if the scheme cannot read `chosen`, and `UnreadableError` if the data has no such positions or
    none that the scheme can read.
    """
    kind = position.load(scheme)
    line = LinePlace() if data != Seq() and Seq() in factors_of(data) else Seq()
    if chosen is not None and line == Seq():
        chosen = chosen.algebra  # so that the same reading has one name
    if chosen is not None and not kind.reads(chosen):
        raise UsageError(
            f"scheme {scheme!r} cannot read positions of this structure",
            got=chosen,
            allowed=", ".join(kind.structures),
            fix="see `ape schemes`",
        )
    candidates = [chosen] if chosen else [line] if kind.flat else [data, line, *factors_of(data)]
    for candidate in filter(kind.reads, candidates):
        if columns(candidate, data) is None:
            raise UnreadableError(
                f"this dataset has no positions of structure {candidate}",
                got=f"structure {data}",
                allowed=f"the factors of {data}, each once; line (seq) and cyclic(n) along its linearisation, each "
                "once; products of these",
                fix="choose another structure, or another dataset",
            )
        return candidate
    raise UnreadableError(
        f"scheme {scheme!r} cannot read this dataset",
        got=f"structure {data}",
        allowed=", ".join(kind.structures),
        fix="choose a dataset of such a structure, or another scheme (`ape schemes`)",
    )


def read_as(config: Config, data: Structure) -> Structure:
    """The structure as which the scheme of a configuration reads data of structure `data`. Raises as `reading` does."""
    return reading(config.scheme, data, config.structure)


def ambiguity(scheme: str, read: Structure, data: Structure) -> str | None:
    """Why tokens of a row can have equal positions if a scheme reads `data` as `read`; None if they cannot.

    The scheme then reads some factors of a product and leaves others out.
    """
    missing = [factor.expression for factor in left_out(read, data)]
    return (
        f"{scheme} reads {read} of {data}, without {', '.join(missing)}: positions are not unique" if missing else None
    )
