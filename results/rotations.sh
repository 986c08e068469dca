#!/bin/sh
# Makes the datasets of results/rotations.toml: the paper's trees with the two rotations of its authors' code.
set -eu
for mirror in root search-tree; do
  for order in breadth breadth-to-depth; do
    ape gen tree-rotate --order "$order" --mirror "$mirror" --out "datasets/tree-rotate-$order-$mirror"
  done
done
