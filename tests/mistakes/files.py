"""Mistakes in file formats: digests, checkpoints, and sources of images and trees."""

from __future__ import annotations

from tests.mistakes._mistake import read

MISTAKES = read("""
an overlap that counts a row only if its source is in training exactly once
  _count  data/test_overlap.py::test_the_overlap_is_that_of_the_rows
  - np.searchsorted(seen, keys, "right") > np.searchsorted(seen, keys)
  + np.searchsorted(seen, keys, "right") == np.searchsorted(seen, keys) + 1
sources compared by their symbols, without positions
  _sides  data/test_overlap.py::test_sources_are_symbols_and_positions_in_order
  - rng.content(starts, where, ids.values.to_numpy())
  + rng.content(starts, ragged.indices_of(starts), ids.values.to_numpy())
an overlap with the test rows of another dataset that is never counted
  _lacks_sources  data/test_overlap.py::test_gen_train_and_eval_say_it
  - any(shard.shared for shards in data.manifest.shards.values() for shard in shards)
  + False
a listed file not compared with run.json
  Run.content  runs/test_integrity.py::test_a_changed_byte_is_noticed
  - (digest := hashlib.sha256(content).hexdigest()) != self.known.files[name]
  + not (digest := hashlib.sha256(content).hexdigest())
the name of a run not compared with its configuration
  read_record  runs/test_integrity.py::test_an_altered_configuration_is_noticed
  - expected != name
  + not expected
evaluations in a file of packed runs replaced by those of a folder
  _lacking  runs/test_packing.py::test_evaluations_of_several_folders_are_joined
  - other = stored or known
  + other = known
a packed run added without a check
  _lacking  runs/test_packing.py::test_a_damaged_run_in_a_file_is_refused_by_name
  - run.content(name)
  + files.read_bytes(run.folder / name)
records that contradict each other joined
  _lacking  runs/test_packing.py::test_records_that_contradict_each_other_are_refused_by_name
  - known.model_copy(update={"files": listed}) != other.model_copy(update={"files": other.files | known.files})
  + False
the size of repeated values in a Parquet file not counted
  values  runs/test_packing.py::test_large_content_is_refused_before_it_is_decompressed
  - (total := total + sum(map(len, found))) > most
  + False
a finished run that replaces whatever run.json another process has written
  RemoteRun.complete  runs/test_finishing.py::test_while_one_finishes_the_other_does_too
  - files.write_text(path, record.text(following), version)
  + files.write_text(path, record.text(following))
files of this attempt beside the run.json of the first one
  RemoteRun._collected  runs/test_finishing.py::test_while_one_finishes_the_other_does_too
  - source.copy(self.folder / source.name)
  + (self.attempt / source.name).copy(self.folder / source.name)
a shard that is not compared with the digest in the manifest
  Rows._opened  data/test_loader.py::test_damage_is_named
  - shard not in self._verified
  + False
the best weights missing in a checkpoint
  Trainer.save  training/test_checkpointing.py::test_the_best_weights_survive_although_repeated_steps_differ
  - self.best if progress.best_step != progress.step else None
  + None
current weights in place of the best ones after a kill
  unpack  training/test_checkpointing.py::test_the_best_weights_survive_although_repeated_steps_differ
  - best or current
  + current
colour planes read as interleaved pixels
  _Version.read  storage/sources/test_cifar.py::test_a_record_is_planes_of_rows
  - planes.transpose(0, 2, 3, 1)
  + planes.reshape(-1, 32, 32, 3)
rows and columns of a plane swapped
  _Version.read  storage/sources/test_cifar.py::test_a_record_is_planes_of_rows
  - planes.transpose(0, 2, 3, 1)
  + planes.transpose(0, 3, 2, 1)
children of a node of Python in reverse order
  _add  storage/tree_formats/test_python.py::test_a_file_is_a_module
  - ast.iter_child_nodes(node)
  + reversed([*ast.iter_child_nodes(node)])
dependents of CoNLL-U in the order of a traversal from the right
  _tree  storage/tree_formats/test_conllu.py::test_random_trees
  - stack += [(child, placed) for child in reversed(below[number])]
  + stack += [(child, placed) for child in below[number]]
the unlabelled pair of the Penn Treebank kept
  _sentences  storage/tree_formats/test_s_expr.py::test_the_penn_treebank
  - tree.kind[0] == "#list" and tree.parent.count(0) == 1 and tree.kind[1] != "#atom"
  + False
a second root of a tree taken for a node
  ParsedTree.check  storage/tree_formats/test_formats.py::test_lists_of_parents_that_are_no_tree
  - len(way) < 1 + (node > 0)
  + not way
a file that is skipped decides how the others are read
  _Reader._trees  storage/test_tree_sources.py::test_only_files_that_are_read_decide_what_documents_are
  - copy(self.formats[self.plan[path]])
  + self.formats[self.plan[path]]
Penn trees read by the rules of Lisp
  SExprFormat.trees  storage/tree_formats/test_s_expr.py::test_penn_trees_have_no_comments_and_no_strings
  - _sentences(text, rules or "penn")
  + _sentences(text, "lisp")
the expression after a comment of one expression kept
  _pass_over  storage/tree_formats/test_s_expr.py::test_lisp
  - depth == 0 and part.lastgroup != "sign"
  + depth == 0
a description of a page taken for its encoding
  _declared  storage/tree_formats/test_html.py::test_what_is_no_declaration_of_the_document
  - meta.get("content", "").lower().partition("charset")[2] if is_type else ""
  + meta.get("content", "").lower().partition("charset")[2]
ranks counted over the whole tree
  ParsedTree.ranks  storage/tree_formats/test_formats.py::test_nodes_are_numbered_and_ranked_as_they_are_added
  - ranks.append(children[parent])
  + ranks.append(len(ranks))
""")
