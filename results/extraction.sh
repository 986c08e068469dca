#!/bin/sh
# Makes the datasets of results/extraction.toml: parts of `tree-ops` with the trees of preset small.
#   PYTHONPATH=results/ingredients results/extraction.sh
set -eu
gen() {
  name=$1
  shift
  ape gen tree-ops-part --order depth --source-order breadth --depth-mean 4 --n 20000 "$@" --out "datasets/tree-ops-$name"
}
gen symbols-64 --vocabulary 64
gen symbols-512 --vocabulary 512
gen inner --pointer inner
gen extract --operator extract
gen flip-extract --operator flip-extract
gen extract-inner --operator extract --pointer inner
gen extract-inner-80000 --operator extract --pointer inner --n 80000
gen all-80000 --n 80000
