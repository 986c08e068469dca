"""From a configuration and the data's structure to a model.

What a scheme reads a dataset as, the size and the locality bias it gets, and the weights of its seed.
"""

from __future__ import annotations

from typing import Any

import torch

from ape_cli import attention, position, structure
from ape_cli import config as configs
from ape_cli.config import Config
from ape_cli.dataset import Facts
from ape_cli.errors import DataError, UsageError, pick
from ape_cli.model import Transformer


def choose_device(name: str, threads: int | None = None) -> torch.device:
    """`auto`, `cpu` or `cuda`; and how many threads the CPU's work may take (None: torch's own choice)."""
    if threads is not None:
        if not 1 <= threads <= 4096:
            raise UsageError("bad --threads", got=threads, allowed="1 to 4096", fix="leave it out for all cores")
        torch.set_num_threads(threads)
    pick("device", name, ["auto", "cpu", "cuda"])
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError("no CUDA device here", got="--device cuda", allowed="auto, cpu", fix="leave --device out")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def reading(scheme: str, own: str, wanted: str | None = None) -> str:
    """The structure that a scheme reads positions of data of structure `own` as.

    `wanted`, if it is given; else the data's own or, where the scheme cannot or is `flat`, `seq`, the linearisation.
    """
    found, data = position.load(scheme), structure.parse(own)
    if wanted is not None and not found.reads(structure.parse(wanted)):
        allowed = ", ".join(found.structures)
        raise UsageError(
            f"scheme {scheme!r} cannot read this structure", got=wanted, allowed=allowed, fix="see `ape schemes`"
        )
    choices = [structure.parse(wanted)] if wanted else [structure.Seq()] if found.flat else [data, structure.Seq()]
    for choice in choices:
        if found.reads(choice):
            if structure.columns(choice, data) is None:
                raise DataError(
                    f"this dataset has no positions of structure {wanted or choice.expression}",
                    got=f"structure {own}",
                    allowed=f"{own}, once; seq and cyclic(n) along its linearisation, each once; products of these",
                    fix="choose another --structure, or another dataset",
                )
            return choice.expression
    raise DataError(
        f"scheme {scheme!r} cannot read this dataset",
        got=f"structure {own}",
        allowed=", ".join(found.structures),
        fix="choose a dataset of such a structure, or another scheme (`ape schemes`)",
    )


def locality(config: Config) -> float:
    """The locality bias that a configuration comes to. Raises `UsageError` for a scheme that makes no sense
    with its attention, before there is any data."""
    found, kind = position.load(config.scheme), attention.make(config.attention, **config.attention_options)
    own = 1.0 if kind.refuses_decay else found.default_decay
    rate = float(own if config.decay is None else config.decay)
    attention.check(kind, found, rate)
    return rate


def settle(config: Config, data: Facts) -> Config:
    """The configuration with what scheme, attention and data decide filled in: locality bias and size.

    Bounded schemes are sized at exactly the mean of the data's distribution (paper, appendix B). A kind
    of attention that takes no locality bias gets none, unless one is asked for: then it refuses.
    """
    found = position.load(config.scheme)
    plain, read = (reading(config.scheme, data.structure, wanted) for wanted in (None, config.structure))
    mean = data.mean_size if read == data.structure else data.mean_tokens
    size = (config.max_size or max(1, round(mean))) if found.bounded else None
    if config.max_size is not None and not found.bounded:
        raise UsageError(
            f"{config.scheme} is not bounded by a size",
            got=f"max_size={config.max_size}",
            fix="leave max_size out",
        )
    return config.model_copy(
        update={"structure": None if read == plain else read, "max_size": size, "decay": locality(config)}
    )


def variant(config: Config, data: Facts) -> dict[str, Any]:
    """The fields and options in which a settled configuration differs from what its preset and scheme say.

    The kind of attention is among them, and so is the locality bias that it took away.
    """
    plain = settle(configs.resolve(config.preset, config.scheme, {}, seed=config.seed), data)
    fields = config.model_dump()
    options = {"scheme_options", "attention_options"}
    changed = {k: fields[k] for k, v in plain.model_dump().items() if k not in options and fields[k] != v}
    return changed | config.scheme_options | config.attention_options


def build(config: Config, own: str, ids: int) -> Transformer:
    """The model of a settled configuration for data of structure `own`, with the weights of its seed."""
    generator = torch.Generator().manual_seed(config.seed)
    scheme = position.make(
        config.scheme,
        d_model=config.d_model,
        heads=config.heads,
        structure=reading(config.scheme, own, config.structure),
        max_size=config.max_size or 1,
        decay=config.decay,
        generator=generator,
        **config.scheme_options,
    )
    return Transformer(
        scheme,
        ids=ids,
        d_ff=config.d_ff,
        encoder_layers=config.encoder_layers,
        decoder_layers=config.decoder_layers,
        dropout=config.dropout,
        kind=attention.make(config.attention, **config.attention_options),
        generator=generator,
    )


_HOOKS = ("context", "embed", "frame", "rotate", "turn", "bias", "decay")


def compile_around(model: Transformer, backend: str = "inductor") -> None:
    """Have `torch.compile` work on all of a model but the scheme's hooks, which plan by the positions' values.

    Weights and results stay what they are, within float tolerance. Raises `UsageError` where nothing can be compiled.
    """
    try:
        torch.compile(lambda x: x + 1, backend=backend)(torch.zeros(2))
    except Exception as error:  # torch's own kinds are not public
        raise UsageError(
            "torch.compile does not work here",
            got=str(error).strip().splitlines()[0],
            allowed="a C++ compiler on a CPU, Triton on CUDA",
            fix="leave --compile out; nothing needs it",
        ) from error
    for hook in _HOOKS:
        setattr(model.scheme, hook, torch.compiler.disable(getattr(model.scheme, hook)))
    model.compile(dynamic=True, backend=backend)
