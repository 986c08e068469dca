"""Mistakes in the model, training, evaluation and reports."""

from __future__ import annotations

from tests.mistakes._mistake import Mistake

MISTAKES = [
    Mistake(
        "token embeddings of standard deviation 20 beside vectors of amplitude 1",
        "model.py",
        "std=self.embedding.shape[1] ** -0.5",
        "std=1.0",
        "position/test_contract.py::test_additive_vectors_are_of_the_tokens_size",
    ),
    Mistake(
        "batch means averaged without weights",
        "score.py",
        "return float(sum(c.sum() for c in self.correct) / max(1, sum(t.sum() for t in self.tokens)))",
        "return float(np.mean([c.sum() / t.sum() for c, t in zip(self.correct, self.tokens)]))",
        "test_train.py::test_accuracy_is_a_ratio_of_two_sums",
    ),
    Mistake(
        "the best checkpoint chosen on the test set",
        "train.py",
        'data.split("train"), data.split("validation")',
        'data.split("train"), data.split("test")',
        "test_train.py::test_best_by_validation_and_the_test_split_is_never_read",
    ),
    Mistake(
        "a warm-up of 1.25%",
        "config.py",
        "warmup: float = Field(0.05,",
        "warmup: float = Field(0.0125,",
        "test_train.py::test_learning_rate_of_the_paper",
    ),
    Mistake(
        "a schedule that is created and never stepped",
        "train.py",
        'group["lr"] = learning_rate(self.at.step, self.steps, self.config)',
        "_ = learning_rate(self.at.step, self.steps, self.config), group",
        "test_train.py::test_the_optimiser_follows_the_schedule",
    ),
    Mistake(
        "results that depend on the batch size at evaluation",
        "score.py",
        "self.nats.append((nats.double() * mask).sum(1).cpu().numpy())",
        "self.nats.append((nats.double() * mask).mean(1).cpu().numpy())",
        "test_train.py::test_scores_do_not_depend_on_the_batch_size",
    ),
    Mistake(
        "the best weights' evaluation with dropout on",
        "score.py",
        "    model.eval()\n",
        "",
        "test_train.py::test_scores_do_not_depend_on_the_batch_size",
    ),
    Mistake(
        "weights stored that are no number",
        "train.py",
        "if not (value.sum().isfinite() or value.isfinite().all()):",
        "if value is None:",
        "test_train.py::test_nothing_is_stored_that_is_no_number",
    ),
    Mistake(
        "the best weights not kept apart from those that are trained on",
        "train.py",
        "{name: value.clone() for name, value in self._weights().items()}",
        "self._weights()",
        "test_train.py::test_the_best_weights_are_kept_while_training_goes_on",
    ),
    Mistake(
        "dropout's stream not restored on resume",
        "state.py",
        "torch.set_rng_state(tensors[cpu])",
        "pass",
        "test_train.py::test_a_stopped_run_ends_as_if_it_had_not_stopped",
    ),
    Mistake(
        "the locality bias missing from cross-attention",
        "model.py",
        "link, cross = Link.of(self.scheme, context, context), Link.of(self.scheme, context, source)",
        "link = Link.of(self.scheme, context, context)\n"
        "        cross = Link(**vars(Link.of(self.scheme, context, source)) | {'decay': None})",
        "test_reference.py::test_the_model_is_the_plain_one",
    ),
    Mistake(
        "the locality bias missing from the encoder",
        "model.py",
        "        link = Link.of(self.scheme, context, context)\n        for",
        "        link = Link(**vars(Link.of(self.scheme, context, context)) | {'decay': None})\n        for",
        "test_reference.py::test_the_model_is_the_plain_one",
    ),
    Mistake(
        "positions off by one in greedy decoding",
        "decode.py",
        "pen.next(written, batch.input_positions[:, :m])",
        "pen.next(written, batch.input_positions[:, :m] + 1)",
        "test_reference.py::test_greedy_writes_what_a_loop_by_hand_writes",
    ),
    Mistake(
        "a decoder whose queries mix",
        "model.py",
        "behind = attention.make() if kind.mixes_queries else kind",
        "behind = kind",
        "attention/test_contract.py::test_nothing_is_seen_ahead_of_time",
    ),
    Mistake(
        "earlier runs renamed by a late field",
        "config.py",
        "exclude=set(without) | plain",
        "exclude=set(without)",
        "attention/test_choice.py::test_earlier_configurations_keep_their_digest",
    ),
    Mistake(
        "every run in the table under `dot`",
        "report.py",
        '"attention": attention',
        '"attention": "dot"',
        "attention/test_choice.py::test_tables_tell_kinds_apart",
    ),
    Mistake(
        "greedy decoding that is led by the answer's places",
        "decode.py",
        "place = np.where(m < budget, growth.next(), 0)",
        "place = nodes[:, m]",
        "test_decode.py::test_trees_by_hand",
    ),
    Mistake(
        "greedy decoding that goes on for as long as the longest answer of the batch",
        "decode.py",
        "place = np.where(m < budget, growth.next(), 0)",
        "place = growth.next()",
        "test_decode.py::test_a_row_does_not_depend_on_the_rows_beside_it",
    ),
    Mistake(
        "a truncated subtree that opens its children again",
        "decode.py",
        "self.closing = task.closing(batch.op, pointer)",
        "self.closing = np.full_like(batch.op, -1)",
        "test_decode.py::test_the_pointer_closes_its_node_in_truncate_alone",
    ),
    Mistake(
        "a depth-first tree unfolded breadth-first",
        "decode.py",
        'task.order == "breadth"',
        'task.order != ""',
        "test_decode.py::test_places_follow_from_the_symbols",
    ),
]
