#!/bin/sh
# Makes the dataset of results/first-release.toml whose depths are those of N(7, 1) without the decimals.
set -eu
ape gen tree-rotate --order breadth --depth-mean 6.5 --out datasets/tree-rotate-breadth-truncated
