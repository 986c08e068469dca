"""The task `tree-query`: a question about a tree whose nodes are addressed by paths or by labels.

Shapes: R rows, T nodes in all, k branches, Q query nodes in all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ape_cli.core import ragged, rng
from ape_cli.core.rng import I64, U64
from ape_cli.core.vocabulary import FIRST_SYMBOL
from ape_cli.structure import Tree, trees
from ape_cli.tasks import Source, Tokens, option
from ape_cli.tasks._trees import EVERY, NONE, UniqueTrees

SUBTREE, NODE, PARENT, ANCESTOR = range(4)


@dataclass(frozen=True, kw_only=True)
class TreeQuery(UniqueTrees):
    """Answer one of four questions about a tree with unique symbols.

    The source is operator(at(address, ...), tree). For any branching, the node `at` is at heap index 2 and the root of
    the tree at heap index 3. Each child of `at` starts the address of a node. The operator determines the target:

    - `subtree`: the subtree at the addressed node;
    - `node`: the label of the addressed node;
    - `parent`: the label of its parent;
    - `ancestor`: the label of the lowest common ancestor of the two addressed nodes.

    A label is the symbol of a node. A target that is a label is a tree of a single node. Addresses have one of two
    forms:

    - `path`: the numbers of the branches, 1 to k, from the root of the tree to the node, as a chain of nodes in which
      each is the first child of the previous. The path of the root is empty, so `at` is then a leaf.
    - `label`: a leaf with the label of the node. The answer to `node` is then the address itself.

    The addressed node is drawn uniformly from all nodes, or from those below the root for `parent`. For `ancestor` the
    answer is drawn first, uniformly from the inner nodes, because the lowest common ancestor of two uniform nodes is
    too often the root. The two addressed nodes are then drawn uniformly from the subtrees of two of its children. The
    task is ours.

    Raises `UsageError` if an option is out of range, or if the vocabulary is too small for unique symbols.

    >>> task = TreeQuery(order="depth", depth_mean=3, depth_std=0, vocabulary=16)
    >>> row = task.sample(rows=range(1), split="train", seed=2).to_pylist()[0]
    >>> [task.id_names[i] for i in row["source_ids"]]  # the parent of x1, in f3(f6(x0, x1), f1(x4, x3))
    ['parent', 'at', '1', '2', 'f3', 'f6', 'x0', 'x1', 'f1', 'x4', 'x3']
    >>> row["source_positions"]
    [1, 2, 4, 8, 3, 6, 12, 13, 7, 14, 15]
    >>> [task.id_names[i] for i in row["target_ids"]], row["target_positions"]
    (['f6'], [1])
    """

    summary = "the subtree, label, parent or common ancestor of nodes addressed by a path or a label"
    source = "ours; the trees of Algebraic Positional Encodings, section 4.1"
    answer_options = ("by",)
    form_options = ("branching", "binarise", "by")
    ops = ("subtree", "node", "parent", "ancestor")
    min_depth = 2  # the tree below the root has a node that is not its root

    by: str = option("path", "Form of addresses: path or label.", among=("path", "label"))

    def symbols(self) -> list[str]:
        """The readable names of the ids from 3 on.

        These are leaves, operators of the tree, the four operators, `at`, and the branches of paths, from 1 on.
        """
        branches = [str(c) for c in range(1, self.branching + 1)] if self.by == "path" else []
        return [*super().symbols(), *self.ops, "at", *branches]

    @property
    def _first_operator(self) -> int:
        """The id of the first of the four operators. The ids of `at` and of the branches follow."""
        return FIRST_SYMBOL + self.leaves + self.operators

    def expected_tokens(self) -> float:
        """The mean number of nodes of a source, measured on 2,000 draws of one fixed stream.

        It is a function of the options alone. It has no simple formula, because trees that need too many symbols are
        drawn again.
        """
        return self._measured_tokens

    @cached_property
    def _measured_tokens(self) -> float:
        """See `expected_tokens`."""
        nodes = self.nodes(round(self.depth_mean))
        return self._measured("queries", nodes, lambda source: np.diff(source.offsets))

    def draw(self, key: U64) -> Source:
        """Draw one source for each key. uint64 [R] -> `Source` of R rows with `op` and `chosen`

        `chosen` is the heap index of the node that is the answer, or its root, counted from the tree's own root. The
        tree's nodes are the last ones of each row.
        """
        depth = self.draw_sizes(key)
        heap, offsets, leaf = self._grow(depth - 1, rng.child(key, "shape"))
        symbol = FIRST_SYMBOL + self._unique(offsets, leaf, rng.child(key, "symbols"))
        op = rng.below(rng.child(key, "operator"), 4)
        addressed, chosen = self._question(heap, offsets, leaf, op, rng.child(key, "node"))
        counts, chain, chain_symbol = self._addresses(heap, symbol, addressed)
        one_per_row, ones, first = np.arange(depth.size + 1), np.ones_like(depth), self._first_operator
        query = (one_per_row, ones, first + op), (one_per_row, 2 * ones, (first + 4) * ones)
        tree = (offsets, trees.graft(heap, 3, self.branching), symbol)
        cut, position, symbols = ragged.beside(*query, (ragged.offsets_of(counts), chain, chain_symbol), tree)
        return Source(cut, position, symbols, depth, op, chosen)

    def _question(self, heap: I64, offsets: I64, leaf: np.ndarray, op: I64, key: U64) -> tuple[I64, I64]:
        """Draw the addressed nodes of each row, and find the node that is the answer.

        `heap`: int64 [T]; `offsets`: int64 [R+1]; `leaf`: bool [T]; `op`: int64 [R]; `key`: uint64 [R]. Returns the
        places of the addressed nodes, int64 [R, 2], where -1 stands for none, and the answers' heap indices, int64 [R].
        """
        k, first, nodes = self.branching, offsets[:-1], np.diff(offsets)
        word = rng.bits(key[:, None], np.arange(5))
        parent = op == PARENT
        node = first + parent + rng.below(word[:, 0], nodes - parent)  # the root is the first node of its tree
        addressed = np.stack([node, np.full_like(node, -1)], axis=1)
        chosen = heap[node]
        chosen[parent] = Tree(k).ancestor(chosen[parent], 1)
        two = np.flatnonzero(op == ANCESTOR)
        inner = np.flatnonzero(~leaf)
        before = np.searchsorted(inner, first[two])
        top = heap[inner[before + rng.below(word[two, 0], nodes[two] // k)]]  # n nodes have n // k inner ones
        branch = rng.below(word[two, 1], k)
        other = (branch + 1 + rng.below(word[two, 2], k - 1)) % k
        for side, below in enumerate((branch, other)):
            addressed[two, side] = self._node_below(heap, offsets, two, k * (top - 1) + 2 + below, word[two, 3 + side])
        chosen[two] = top
        return addressed, chosen

    def _node_below(self, heap: I64, offsets: I64, rows: I64, root: I64, word: U64) -> I64:
        """The flat place of a uniform node of the subtree at `root`, in each of N rows.

        `heap`: int64 [T]; `offsets`: int64 [R+1]; `rows` and `root`: int64 [N]; `word`: uint64 [N]. Returns int64 [N].
        """
        tree = Tree(self.branching)
        index, cut = ragged.take(offsets, rows)
        row, node = ragged.rows_of(cut), heap[index]
        up = np.maximum(tree.level(node) - tree.level(root)[row], 0)
        inside = np.flatnonzero(tree.ancestor(node, up) == root[row])
        counts = np.bincount(row[inside], minlength=rows.size)
        return index[inside[ragged.offsets_of(counts)[:-1] + rng.below(word, counts)]]

    def _addresses(self, heap: I64, symbol: I64, addressed: I64) -> tuple[I64, I64, I64]:
        """The nodes that write down the addresses, row by row.

        `heap` and `symbol`: int64 [T]; `addressed`: int64 [R, 2], flat places, where -1 stands for none. Returns the
        number of nodes in each row, int64 [R], their heap indices and their ids, int64 [Q] each.
        """
        k, tree, node = self.branching, Tree(self.branching), addressed.ravel()
        steps = tree.level(heap[node]) if self.by == "path" else np.ones_like(node)
        steps[node < 0] = 0
        offsets = ragged.offsets_of(steps)
        address, step = ragged.rows_of(offsets), ragged.indices_of(offsets)
        # The address number i of a row begins at child i of `at`, and goes on to the first child each time.
        position = (k + 1 + address % 2) * trees.power(k, step) + tree.level_start(step)
        if self.by == "label":
            return steps.reshape(-1, 2).sum(axis=1), position, symbol[node[address]]
        branch = tree.branch(tree.ancestor(heap[node[address]], steps[address] - 1 - step))
        return steps.reshape(-1, 2).sum(axis=1), position, self._first_operator + 5 + branch

    def target(self, source: Source) -> Tokens:
        """The target of each source: the subtree at the chosen node, or this node alone."""
        assert source.op is not None
        assert source.chosen is not None
        row, heap, symbol, down = self._tree_of(source)
        kept = np.flatnonzero((down == 0) | ((down > 0) & (source.op == SUBTREE)[row]))
        row = row[kept]
        heap = heap[kept] - (source.chosen - 1)[row] * trees.power(self.branching, down[kept])  # as `trees.reroot` does
        return Tokens(ragged.offsets_of(np.bincount(row, minlength=source.size.size)), heap, symbol[kept])

    def closing(self, op: I64, pointer: I64) -> I64:
        """`EVERY` symbol is a leaf of a target that is a label; `NONE` for `subtree`. int64 [R] each -> int64 [R]"""
        return np.where(op == SUBTREE, NONE, EVERY)
