#!/bin/sh
# Makes the datasets of results/rotations.toml: the preprint's trees with the two rotations of its authors' code.
set -eu
for rotation in root right; do
  folder=$rotation
  if [ "$rotation" = right ]; then folder=search-tree; fi # the name of the rotation when the runs were trained
  ape gen tree-rotate --order breadth --rotation "$rotation" --out "datasets/tree-rotate-breadth-$folder"
  ape gen tree-rotate --order depth --source-order breadth --rotation "$rotation" \
    --out "datasets/tree-rotate-breadth-to-depth-$folder"
done
