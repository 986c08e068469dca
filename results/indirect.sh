#!/bin/sh
# Makes the dataset of results/indirect.toml: strings of all lengths from 3 to 8 in equal shares, of 10 symbols.
set -eu
ape gen indirect-indexing --sizes 3-8 --shift-max 3 --vocabulary 10 \
  --n 20000 --n-validation 200 --n-test 200 --out datasets/indirect-indexing-short
