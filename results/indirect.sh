#!/bin/sh
# Makes the dataset of results/indirect.toml: strings of all lengths from 4 to 12 in equal shares, of 16 symbols.
set -eu
ape gen indirect-indexing --sizes 4-12 --shift-max 4 --vocabulary 16 \
  --n 20000 --n-validation 200 --n-test 200 --out datasets/indirect-indexing-short
