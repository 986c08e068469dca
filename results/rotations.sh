#!/bin/sh
# Makes the datasets of results/rotations.toml: the preprint's trees with the two rotations of its authors' code.
set -eu
for mirror in root search-tree; do
  ape gen tree-rotate --order breadth --mirror "$mirror" --out "datasets/tree-rotate-breadth-$mirror"
  ape gen tree-rotate --order depth --source-order breadth --mirror "$mirror" \
    --out "datasets/tree-rotate-breadth-to-depth-$mirror"
done
