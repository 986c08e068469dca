"""Mistakes in the formulas of models: layers, decoding, masks, losses and the learning rate."""

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
results that depend on the batch size at evaluation
  MetricSums.add  evaluation/test_metrics.py::test_scores_do_not_depend_on_the_batch_size
  - self.nats.append((nats.double() * mask).sum(1).cpu().numpy())
  + self.nats.append((nats.double() * mask).mean(1).cpu().numpy())
the best weights' evaluation with dropout on
  teacher_forced  evaluation/test_metrics.py::test_scores_do_not_depend_on_the_batch_size
  - model.eval()
the locality bias missing from cross-attention
  Transformer.decode  models/test_reference.py::test_the_model_is_the_plain_one
  - AttentionContext.of(self.scheme, new, keys)
  + AttentionContext(**vars(AttentionContext.of(self.scheme, new, keys)) | {'decays': None})
a state of the encoder at padding, in place of the last token
  Transformer.decode  models/test_memory.py::test_the_decoder_reads_the_last_state_alone
  - last = source.mask.sum(1, keepdim=True) - 1
  + last = torch.full_like(source.mask.sum(1, keepdim=True), memory.shape[1] - 1)
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
  - writer.next(written, _positions(written, batch, reading))
  + writer.next(written, _positions(written, batch, reading) + 1)
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
an additional step of warm-up by the rounding of a product
  schedule  training/test_schedule.py::test_the_warm_up_is_the_smallest_whole_number_that_is_not_below_its_fraction
  - math.ceil(Fraction(str(config.warmup)) * steps)
  + math.ceil(config.warmup * steps)
a gap between a source and its target, as padding in the middle of a row
  _without_gap  models/test_decoder.py::test_words_are_packed_without_a_gap
  - index, gap = np.arange(length), (source.shape[1] - lengths)[:, None]
  + index, gap = np.arange(length), (0 * lengths)[:, None]
positions of the target that begin again
  PositionReading.input_positions_of  models/test_decoder.py::test_words_are_packed_without_a_gap
  - return positions
  + return positions - sources.reshape(-1, *[1] * (positions.ndim - 1))
SOS at the empty path of the line, although the line continues
  PositionReading.input_positions_of  models/test_decoder.py::test_trees_keep_their_places_and_their_line_continues
  - positions[:, 0, axis] = sources + 1
  + positions[:, 0, axis] = 0
the label after the right one predicted
  collate  models/test_decoder.py::test_words_are_packed_without_a_gap
  - lengths[:, None] + np.arange(target_most)
  + lengths[:, None] + 1 + np.arange(target_most)
the vector of the source added to the target
  DecoderOnly.decode  models/test_decoder.py::test_the_model_is_the_plain_one
  - self.sides[1]
  + self.sides[0]
padding before a source that is attended to
  DecoderOnly.decode  models/test_decoder.py::test_the_model_is_the_plain_one
  - replace(AttentionContext.of(self.scheme, new, keys), causal=False)
  + replace(AttentionContext.of(self.scheme, new, keys), causal=False, keys=None)
kept keys moved to another place than their positions
  KVCache.move_to_end  models/test_decoder.py::test_the_model_is_the_plain_one
  - torch.arange(self.count, device=lengths.device) + lengths[:, None]
  + torch.arange(self.count, device=lengths.device) + lengths[:, None] + 1
the last tokens of all rows together read after a prefix, instead of those of each
  KVCache.move_to_end  position/test_layers.py::test_what_a_window_reads_by_hand
  - torch.arange(reach, device=lengths.device) + lengths[:, None]
  + torch.arange(reach, device=lengths.device) + self.count + 0 * lengths[:, None]
the tokens before a token that is added forgotten
  Attention._projected  position/test_layers.py::test_tokens_one_by_one_have_the_content_of_all
  - None if past is None else past.inputs
  + None
padding read by the module of a layer
  Scheme.inputs  position/test_layers.py::test_tokens_one_by_one_have_the_content_of_all
  - x if mask is None else x.masked_fill(~mask[..., None], 0.0)
  + x
layers whose own weights are all the same
  Scheme.attach  position/test_layers.py::test_each_layer_has_weights_of_its_own
  - 1 + len(self.layers)
  + 1
the content of earlier tokens forgotten when a token is added
  KVCache.extended  position/test_layers.py::test_tokens_one_by_one_have_the_content_of_all
  - torch.cat([before, after], dim=dim)
  + torch.cat([before, after], dim=dim) if dim == 2 else after
label smoothing that does not reach the loss
  Trainer.update  training/test_trainer.py::test_labels_are_smoothed_and_padding_is_not_counted
  - self.config.label_smoothing
  + 0.0
padding that is predicted at padding counted as right in training
  Trainer.update  training/test_trainer.py::test_labels_are_smoothed_and_padding_is_not_counted
  - (scores.detach().argmax(-1) == there.labels) & there.label_mask
  + scores.detach().argmax(-1) == there.labels
a training loss since the start of the run instead of since the last validation
  Trainer._validate  training/test_trainer.py::test_each_line_of_the_history_is_of_the_steps_since_the_one_before
  - progress.nats, progress.correct, progress.labels = 0.0, 0, 0
stochastic depth that does not reach its rate in the last layer
  Classifier.__init__  training/test_image_runs.py::test_each_rate_reaches_the_layers
  - layers - 1
  + layers
the dropout of branches on the attention weights of images
  Classifier.__init__  training/test_image_runs.py::test_each_rate_reaches_the_layers
  - attention_dropout=attention_dropout
  + attention_dropout=dropout
no dropout on the tokens of images
  Classifier.read  training/test_image_runs.py::test_each_rate_reaches_the_layers
  - self.dropout(self.scheme.embed(tokens, context))
  + self.scheme.embed(tokens, context)
dropout that is the same for all seeds
  Trainer._restored  training/test_trainer.py::test_every_field_reaches_what_it_is_for
  - torch.manual_seed(group.seed(config.seed))
  + torch.manual_seed(0)
dropout everywhere although it is asked for on branches alone
  _of_sequences  models/test_factory.py::test_settings_of_layers_reach_the_model
  - config.dropout_places == "branches"
  + False
as many layers in the encoder as the decoder should have
  _of_sequences  models/test_factory.py::test_settings_of_layers_reach_the_model
  - Transformer(encoder_layers=encoder, decoder_layers=decoder, **more)
  + Transformer(encoder_layers=decoder, decoder_layers=encoder, **more)
the widths of a decoder-only model from the last layer on
  _of_sequences  models/test_factory.py::test_settings_of_layers_reach_the_model
  - config.feed_forward_widths
  + config.feed_forward_widths[::-1]
a decoder-only model without dropout
  _of_any_model  models/test_decoder.py::test_a_configuration_decides_the_model
  - config.dropout
  + 0.0 if config.decoder_only else config.dropout
weights of a scheme that are the same for all seeds
  _of_any_model  training/test_trainer.py::test_every_field_reaches_what_it_is_for
  - make_scheme(config, read, generator)
  + make_scheme(config, read, torch.Generator().manual_seed(0))
linear layers that start from a normal distribution
  initialise  models/test_transformer.py::test_weights_start_as_documented
  - nn.init.xavier_uniform_(module.weight, generator=generator)
  + nn.init.xavier_normal_(module.weight, generator=generator)
linear layers that start from torch's own distribution
  initialise  models/test_transformer.py::test_weights_start_as_documented
  - nn.init.xavier_uniform_(module.weight, generator=generator)
""")
