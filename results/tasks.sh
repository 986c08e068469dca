#!/bin/sh
# Makes the datasets of results/tasks.toml that no preset has: words over two more groups, as long as those of preset
# `small` over alternating-5. symmetric-3 and cyclic-60 are solvable; cyclic-60 has as many elements as alternating-5.
set -eu
for group in symmetric-3 cyclic-60; do
  ape gen group-word --group "$group" --length-mean 8 --length-std 1 --n 20000 --out "datasets/group-word-$group"
done
