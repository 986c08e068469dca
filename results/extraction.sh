#!/bin/sh
# Makes the datasets of results/extraction.toml: parts of `tree-ops` with the trees of preset small.
#   PYTHONPATH=results/ingredients results/extraction.sh
set -eu
gen() {
  name=$1 task=$2
  shift 2
  ape gen "$task" --order depth --source-order breadth --depth-mean 4 --n 20000 "$@" --out "datasets/tree-ops-$name"
}
gen symbols-64 tree-ops --vocabulary 64
gen symbols-512 tree-ops --vocabulary 512
gen inner tree-ops-part --pointer inner
gen extract tree-ops-part --operator extract
gen flip-extract tree-ops-part --operator flip-extract
gen extract-inner tree-ops-part --operator extract --pointer inner
gen extract-inner-80000 tree-ops-part --operator extract --pointer inner --n 80000
