#!/bin/sh
# Makes the datasets of results/trees.toml: the functions of Python's standard library that have at most 48 nodes.
# Tests, and packages that are installed into the same folder, are left out. The functions differ between versions of
# Python; the manifests have the digests of all files.
#   results/trees.sh && ape sweep results/trees.toml
set -eu
python - <<'END'
import shutil
import sysconfig

skip = ("site-packages", "dist-packages", "test", "tests", "idle_test", "turtledemo", "lib-dynload", "config-*")
ignored = shutil.ignore_patterns(*skip, "__pycache__", "*.so", "*.txt")
shutil.copytree(sysconfig.get_paths()["stdlib"], "datasets/.sources/stdlib", ignore=ignored, dirs_exist_ok=True)
END
for task in copy rotate mask; do
  for labels in token anonymous; do
    ape gen trees --source datasets/.sources/stdlib --format python --task "$task" --labels "$labels" --order depth \
      --binarise --most-nodes 48
  done
done
