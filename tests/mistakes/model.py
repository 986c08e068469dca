"""Mistakes in models, training and decoding."""

from __future__ import annotations

from tests.mistakes._mistake import read

MISTAKES = read("""
dropout of attention weights although it acts on branches alone
  SequenceModel._stack  models/test_transformer.py::test_dropout_can_act_on_branches_alone
  - {"dropout": dropout, "attention_dropout": inside, "ff_dropout": inside}
  + {"dropout": dropout, "attention_dropout": dropout, "ff_dropout": inside}
token embeddings of standard deviation 20 beside vectors of amplitude 1
  SequenceModel._draw_embeddings  position/test_contract.py::test_additive_vectors_are_of_the_tokens_size
  - std=self.embedding.shape[1] ** -0.5
  + std=1.0
batch means averaged without weights
  MetricSums.token_accuracy  evaluation/test_metrics.py::test_accuracy_is_a_ratio_of_two_sums
  - return float(sum(c.sum() for c in self.correct) / max(1, sum(t.sum() for t in self.tokens)))
  + return float(np.mean([c.sum() / t.sum() for c, t in zip(self.correct, self.tokens)]))
the best checkpoint chosen on the test set
  Trainer.__init__  training/test_trainer.py::test_best_by_validation_and_the_test_split_is_never_read
  - data.split("train"), data.split("validation")
  + data.split("train"), data.split("test")
a warm-up of 1.25%
  Config.warmup  training/test_schedule.py::test_learning_rate_of_the_paper
  - Field(0.05, ge=0, lt=1, description="Fraction of the steps that is linear warm-up.")
  + Field(0.0125, ge=0, lt=1, description="Fraction of the steps that is linear warm-up.")
a schedule that is created and never stepped
  Trainer.step  training/test_trainer.py::test_the_optimiser_follows_the_schedule
  - group["lr"] = self.rate
  + pass
results that depend on the batch size at evaluation
  MetricSums.add  evaluation/test_metrics.py::test_scores_do_not_depend_on_the_batch_size
  - self.nats.append((nats.double() * mask).sum(1).cpu().numpy())
  + self.nats.append((nats.double() * mask).mean(1).cpu().numpy())
the best weights' evaluation with dropout on
  teacher_forced  evaluation/test_metrics.py::test_scores_do_not_depend_on_the_batch_size
  - model.eval()
dropout's stream not restored on resume
  restore_streams  nightly/training/test_trainer.py::test_a_stopped_run_ends_as_if_it_had_not_stopped
  - torch.set_rng_state(tensors[cpu])
  + pass
the locality bias missing from cross-attention
  Transformer.decode  models/test_reference.py::test_the_model_is_the_plain_one
  - AttentionContext.of(self.scheme, new, source)
  + AttentionContext(**vars(AttentionContext.of(self.scheme, new, source)) | {'decays': None})
greedy decoding that keeps keys, and computes the last token at the position of the first
  Transformer.decode  evaluation/test_laws.py::test_every_law_that_is_claimed_holds
  - new = self.scheme.context(positions[:, begin:], None, True, source)
  + new = self.scheme.context(positions[:, : positions.shape[1] - begin], None, True, source)
the locality bias missing from the encoder
  Transformer.encode  models/test_reference.py::test_the_model_is_the_plain_one
  - AttentionContext.of(self.scheme, context, context)
  + AttentionContext(**vars(AttentionContext.of(self.scheme, context, context)) | {'decays': None})
positions off by one in greedy decoding
  _follow  models/test_reference.py::test_greedy_writes_what_a_loop_by_hand_writes
  - writer.next(written, batch.input_positions[:, :m])
  + writer.next(written, batch.input_positions[:, :m] + 1)
a decoder with a kind of attention that mixes queries
  Transformer.__init__  evaluation/test_laws.py::test_every_law_of_an_attention_holds
  - behind = attention.make() if chosen.mixes_queries else chosen
  + behind = chosen
greedy decoding that uses the positions of the answer
  _unfold  evaluation/test_decoding.py::test_trees_by_hand
  - node = np.where(m < budget, growth.next(), 0)
  + node = expected[:, m]
greedy decoding that goes on for as long as the longest answer of the batch
  _unfold  evaluation/test_decoding.py::test_a_row_does_not_depend_on_the_rows_beside_it
  - node = np.where(m < budget, growth.next(), 0)
  + node = growth.next()
a truncated subtree that gets its children again
  _Growth.__init__  evaluation/test_decoding.py::test_the_pointer_closes_its_node_in_truncate_alone
  - self.closing = task.closing(batch.op, pointer)
  + self.closing = np.full_like(batch.op, -1)
a depth-first tree unfolded breadth-first
  _Growth.__init__  evaluation/test_decoding.py::test_places_follow_from_the_symbols
  - task.order == "breadth"
  + task.order != ""
the best weights of images chosen on the test set
  Trainer._validate  training/test_image_runs.py::test_the_test_split_is_recorded_and_chooses_nothing
  - validation = self.score(self.validation)
  + validation = self.score(self.test or self.validation)
tokens placed column by column
  _classifier  training/test_image_runs.py::test_tokens_stand_row_by_row
  - np.divmod(np.arange(rows * columns), columns)
  + np.divmod(np.arange(rows * columns), rows)[::-1]
rows and columns of pixels exchanged
  Classifier.tokens  models/test_image_classifier.py::test_against_one_written_again
  - x.permute(0, 3, 1, 2)
  + x.permute(0, 3, 2, 1)
each dataset normalised with its own moments
  Classifier.__init__  training/test_image_runs.py::test_another_dataset_is_brought_to_the_scale_of_training
  - nn.Buffer(torch.tensor(values))
  + nn.Buffer(torch.tensor(values), persistent=False)
images augmented when they are scored
  Experiment.batch_options  training/test_image_runs.py::test_augmentation_is_of_training_alone_and_new_in_each_epoch
  - augmentation.parse(self.config.augment or "none") if training else ()
  + augmentation.parse(self.config.augment or "none") if not training else ()
stochastic depth that changes the mean
  stochastic_depth  models/test_image_classifier.py::test_stochastic_depth
  - (kept / (1 - skip))
  + kept
each rank divides by the labels of its own rows
  Trainer.step  training/test_data_parallel.py::test_the_mean_of_the_ranks_gradients_is_that_of_the_whole_batch
  - batch.counts
  + (int(batch.label_mask.sum()), int(batch.source_mask.sum()))
gradients of ranks averaged, not summed
  Trainer.update  training/test_data_parallel.py::test_the_mean_of_the_ranks_gradients_is_that_of_the_whole_batch
  - (total / labels * self.execution.group.size).backward()
  + (total / labels).backward()
validation on only the first rank's share
  Trainer.score  nightly/training/test_data_parallel.py::test_two_ranks_come_to_what_one_process_comes_to
  - group.all_reduce_metrics(sums)
  + sums
an exported model that dropout disturbs
  TrainedModel.__init__  evaluation/sharing/test_exported.py::test_predictions_on_words_are_those_of_the_run
  - module.eval()
  + module.train()
""")
