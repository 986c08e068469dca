"""Relations of encodings that read the nodes of trees, and exchanges of nodes that leave their scores as they are.

In the latter, the special case is the same encoding on another tree. A tree is mirrored by exchanging the children of
every node, with all that is below them.

Shapes: H heads, N nodes, D channels of the model, n greatest depth with its own scalars.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ape_cli.evaluation.algebra.relation import ConfiguredScheme, Relation, put, slopes
from ape_cli.evaluation.algebra.relations_of_operators import down_one_branch, same

_TREE, _DEEPEST = "tree(2)", 30
_NODES = torch.tensor([[1, 2, 3, 4, 5, 6, 7, 10, 12, 13, 20, 21, 41]])


def mirrored(tree: Any, nodes: Tensor) -> Tensor:
    """The heap index of each node in the mirrored tree. int64 -> int64"""
    level = tree.level(nodes)
    result: Tensor = tree.level_start(level) + tree.level_start(level + 1) - 1 - nodes
    return result


def _steps(scheme: Any) -> Tensor:
    """The numbers of steps that have scalars. -> int64 [n + 1]"""
    return torch.arange(scheme.depth + 1)


def _by_distance(special: Any, general: Any) -> None:
    """b[u, d] = b[u + d]."""
    steps = _steps(general)
    put(general.scalars, special.scalars[:, :, steps[:, None] + steps].flatten(2))


def _linear(special: Any, general: Any) -> None:
    """b[d] = -m d."""
    put(general.scalars, -slopes(special)[:, None] * torch.arange(2 * general.depth + 1))


def _logarithmic(special: Any, general: Any) -> None:
    """b[d] = -r1 log(1 + r2 d)."""
    r1, r2 = (r[:, None] for r in special.coefficients())
    put(general.scalars, -r1 * (1 + r2 * torch.arange(2 * general.depth + 1)).log())


def _by_offset(special: Any, general: Any) -> None:
    """b[u, d] = b(d - u), with the buckets of an encoder."""
    steps = _steps(general)
    bucket = special.bucket(steps - steps[:, None], both_ways=True)
    put(general.scalars, special.scalars[0][:, bucket].flatten(1))


def _levels(tree: Any) -> tuple[Tensor, Tensor]:
    """The places of nodes in level order, and the nodes."""
    nodes = torch.arange(1, tree.level_start(5))[None]
    return nodes, nodes


def _vectors(special: Any, general: Any) -> None:
    """The vectors of all nodes that have a row."""
    nodes = torch.arange(1, len(general.table) + 1)[None]
    put(general.table, special.vectors(nodes)[0])


def _mirror(name: str, options: dict[str, Any] | None = None) -> Relation:
    """An encoding that reads the same in the mirrored tree."""
    general = ConfiguredScheme(name, options or {}, _TREE)
    special = ConfiguredScheme(name, options or {}, _TREE, places="the mirrored tree")
    return Relation(
        special, general, "the same weights", same, positions=lambda tree: (mirrored(tree, _NODES), _NODES)
    )


_DISTANCE, _PATH = (ConfiguredScheme(name, structure=_TREE) for name in ("tree-distance", "tree-path"))
_DEEP = {"max_size": _DEEPEST}
_DEEP_DISTANCE, _DEEP_PATH = (
    ConfiguredScheme(name, _DEEP, structure=_TREE) for name in ("tree-distance", "tree-path")
)
_NODE = ConfiguredScheme("tree-learned", {"max_size": 4}, structure=_TREE)
RELATIONS = [
    Relation(_DISTANCE, _PATH, "b[u, d] = b[u + d]", _by_distance),
    Relation(
        ConfiguredScheme("alibi"),
        _DEEP_DISTANCE,
        "b[d] = -m d, at nodes along one branch",
        _linear,
        positions=down_one_branch,
    ),
    Relation(
        ConfiguredScheme("kerple"),
        _DEEP_DISTANCE,
        "b[d] = -r1 log(1 + r2 d), at nodes along one branch",
        _logarithmic,
        positions=down_one_branch,
    ),
    Relation(
        ConfiguredScheme("t5"),
        _DEEP_PATH,
        "b[u, d] = b(d - u), at nodes along one branch",
        _by_offset,
        positions=down_one_branch,
    ),
    Relation(
        ConfiguredScheme("learned", {"max_size": 31}),
        _NODE,
        "a row for each place in level order, on complete trees",
        lambda learned, node: put(node.table, learned.table[1:]),
        "vectors",
        positions=_levels,
    ),
    Relation(
        ConfiguredScheme("tree", structure=_TREE),
        _NODE,
        "its vectors as a table, up to max_size",
        _vectors,
        "vectors",
        positions=_levels,
    ),
    _mirror("tree-distance"),
    _mirror("tree-path"),
]
