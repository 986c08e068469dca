"""Relations of encodings that read the nodes of trees, and exchanges of nodes that leave their scores unchanged.

In the latter, the special case is the same encoding at other nodes. A tree is mirrored by exchanging the children of
every node, with all that is below them. Two children with the same tree below them are isomorphic; they are exchanged
alone, and what is below them stays, so that only an encoding that gives both the same operator has the same scores.

Shapes: H heads, N nodes, D channels of the model, n greatest depth with its own scalars.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ape_cli.evaluation.algebra.relation import ConfiguredScheme, Relation, put, slopes
from ape_cli.evaluation.algebra.relations_of_operators import down_one_branch, same

_TREE, _DEEPEST = "tree(2)", 30
_PATH_NODES = 9
_NODES = torch.tensor([[1, 2, 3, 4, 5, 6, 7, 10, 12, 13, 20, 21, 41]])
_TWINS = torch.tensor([[1, 2, 3, 6, 7, 12, 13, 14, 15, 24, 25, 28, 29]])  # 6 and 7 are isomorphic


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


def _first_feature(special: Any, general: Any) -> None:
    """The angles as frequencies of the first feature, and 0 for the others."""
    put(general.frequencies, torch.zeros(()))
    general.frequencies.data[..., 0] = special.angles


def _along_a_path(tree: Any) -> tuple[Tensor, Tensor]:
    """What RoPE reads: 1 + (2/N)^(1/2) cos(pi (n + 1/2) / N), with the first eigenvector of a path. And the nodes."""
    place = torch.arange(_PATH_NODES)[None]
    vector = (2 / _PATH_NODES) ** 0.5 * (math.pi * (place.double() + 0.5) / _PATH_NODES).cos()
    return 1 + vector, tree.level_start(place)  # positions are not negative


def _exchanged(tree: Any) -> tuple[Tensor, Tensor]:
    """The nodes of a tree in which two isomorphic children have changed places, and those of the tree."""
    return torch.where(_TWINS == 6, 7, torch.where(_TWINS == 7, 6, _TWINS)), _TWINS


def _blind(
    name: str,
    options: dict[str, Any],
    places: str = "the mirrored tree",
    positions: Callable[[Any], tuple[Tensor, Tensor]] = lambda tree: (mirrored(tree, _NODES), _NODES),
) -> Relation:
    """An encoding that has the same scores at other nodes."""
    general = ConfiguredScheme(name, options, _TREE)
    return Relation(replace(general, places=places), general, "the same weights", same, positions=positions)


_DISTANCE, _PATH = (ConfiguredScheme(name, structure=_TREE) for name in ("tree-distance", "tree-path"))
_DEEP, _WALKS = {"max_size": _DEEPEST}, {"features": "random-walk"}
_DEEP_DISTANCE, _DEEP_PATH = (ConfiguredScheme(name, _DEEP, structure=_TREE) for name in ("tree-distance", "tree-path"))
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
    Relation(
        ConfiguredScheme("rope", {"learned": True}),
        ConfiguredScheme("wire", structure=_TREE),
        "its angles for the first feature, at a path of N nodes; RoPE reads 1 + (2/N)^(1/2) cos(pi (n + 1/2) / N)",
        _first_feature,
        positions=_along_a_path,
    ),
    *(_blind(name, {}) for name in ("tree-distance", "tree-path", "wire")),
    _blind("wire", _WALKS),
    *(_blind("wire", options, "a tree with isomorphic children exchanged", _exchanged) for options in ({}, _WALKS)),
]
