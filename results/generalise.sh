#!/bin/sh
# Evaluates runs on sizes that are rare or missing in training: 1,000 test rows at each length from 30 to 80 (preset
# small trains on N(20, 2)) and at each depth from 6 to 10 (preset small trains on N(4, 1)). It needs the weights of
# the runs, which are not committed. Run it after the sweeps, in the same folder.
#   results/generalise.sh            evaluates every finished run that has weights and no such evaluation yet
set -eu
gen() { ape gen "$@" --n 1 --n-validation 0 --n-test 1000; }
for task in copy reverse repeat; do
  gen "$task" --sizes 30,40,50,60,70,80 --out "datasets/$task-by-size"
done
for task in tree-copy tree-rotate c3 tree-ops; do
  gen "$task" --order breadth --sizes 6,7,8,9,10 --out "datasets/$task-breadth-by-size"
  gen "$task" --order depth --sizes 6,7,8,9,10 --out "datasets/$task-depth-by-size"
  gen "$task" --order depth --source-order breadth --sizes 6,7,8,9,10 --out "datasets/$task-breadth-to-depth-by-size"
done
set --
for folder in datasets/*-by-size; do set -- "$@" --data "$folder"; done
ape eval "$@"
