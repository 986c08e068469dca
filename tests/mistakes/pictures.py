"""Mistakes in the model for images and in its training."""

from __future__ import annotations

from tests.mistakes._mistake import Mistake

MISTAKES = [
    Mistake(
        "the best weights of images chosen on the test set",
        "Validator.scores",
        "tally = self.score(self.setup.validation)",
        "tally = self.score(self.setup.test or self.setup.validation)",
        "training/test_image_runs.py::test_the_test_split_is_recorded_and_chooses_nothing",
    ),
    Mistake(
        "ties on few validation images decided for the first epoch",
        "Validator.scores",
        "tally.cross_entropy if self.setup.config.ties_by_loss else 0.0",
        "0.0 if self.setup.config.ties_by_loss else 0.0",
        "training/test_image_runs.py::test_of_equal_validations_the_lower_loss_is_kept",
    ),
    Mistake(
        "tokens placed column by column",
        "_classifier",
        "np.divmod(np.arange(rows * columns), columns)",
        "np.divmod(np.arange(rows * columns), rows)[::-1]",
        "training/test_image_runs.py::test_tokens_stand_row_by_row",
    ),
    Mistake(
        "rows and columns of pixels exchanged",
        "Classifier.tokens",
        "x.permute(0, 3, 1, 2)",
        "x.permute(0, 3, 2, 1)",
        "models/test_image_classifier.py::test_against_one_written_again",
    ),
    Mistake(
        "sequence pooling over channels",
        "Classifier.read",
        "torch.softmax(self.pool(x), dim=1)",
        "torch.softmax(self.pool(x), dim=2)",
        "models/test_image_classifier.py::test_against_one_written_again",
    ),
    Mistake(
        "each dataset normalised with its own moments",
        "Classifier.__init__",
        "nn.Buffer(torch.tensor(values))",
        "nn.Buffer(torch.tensor(values), persistent=False)",
        "training/test_image_runs.py::test_another_dataset_is_brought_to_the_scale_of_training",
    ),
    Mistake(
        "images augmented when they are scored",
        "feed",
        '{"augment": augmentation.parse(config.augment or "none")} if training else {}',
        '{"augment": augmentation.parse(config.augment or "none")} if not training else {}',
        "training/test_image_runs.py::test_augmentation_is_of_training_alone_and_new_in_each_epoch",
    ),
    Mistake(
        "heights and widths of images compiled as variables",
        "Classifier.sizes_vary",
        "sizes_vary = False",
        "sizes_vary = True",
        "training/test_image_runs.py::test_compiled_only_the_rows_of_a_batch_vary",
    ),
    Mistake(
        "an empty augmentation replaced by the preset's",
        "_augmentation",
        "usual if config.augment is None else config.augment",
        "config.augment or usual",
        "training/test_image_runs.py::test_settings_of_the_other_model_are_refused",
    ),
    Mistake(
        "the same augmentation in every epoch",
        "ImageSplit._collate",
        "(seed or 0, epoch)",
        "(seed or 0, 0)",
        "training/test_image_runs.py::test_augmentation_is_of_training_alone_and_new_in_each_epoch",
    ),
    Mistake(
        "augmentation seeded by the place in the batch",
        "collate",
        "[(*epoch_seed, int(row)) for row in album.row[own]]",
        "[(*epoch_seed, row) for row in range(own.size)]",
        "training/test_image_runs.py::test_shares_are_the_batch",
    ),
    Mistake(
        "stochastic depth in evaluation",
        "Layer._branch",
        "stochastic_depth(added, self.skip) if self.training else added",
        "stochastic_depth(added, self.skip)",
        "models/test_image_classifier.py::test_stochastic_depth_grows_over_the_layers_and_is_for_training",
    ),
    Mistake(
        "stochastic depth drawn once for a whole batch",
        "stochastic_depth",
        "added.shape[0]",
        "1",
        "models/test_image_classifier.py::test_stochastic_depth",
    ),
    Mistake(
        "stochastic depth that changes the mean",
        "stochastic_depth",
        "(kept / (1 - skip))",
        "kept",
        "models/test_image_classifier.py::test_stochastic_depth",
    ),
]
