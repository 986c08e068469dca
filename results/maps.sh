#!/bin/sh
# Makes the dataset of results/maps.toml: sums of two numbers of 1 to 20 digits, with the ones first and not padded.
set -eu
ape gen addition --reverse --sizes 1-20 --n 10000 --n-validation 50 --n-test 50 --out datasets/addition-reversed
