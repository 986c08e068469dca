"""Mistakes in the model for images and in its training."""

from __future__ import annotations

from tests.mistakes._mistake import Mistake

MISTAKES = [
    Mistake(
        "the best weights of images chosen on the test set",
        "train.py",
        "tally = self._scored(self.validation)",
        "tally = self._scored(self.test or self.validation)",
        "test_picture_runs.py::test_the_test_split_is_recorded_and_chooses_nothing",
    ),
    Mistake(
        "ties of few validation images left to the first epoch",
        "train.py",
        "lost = tally.cross_entropy if",
        "lost = 0.0 if",
        "test_picture_runs.py::test_of_equal_validations_the_lower_loss_is_kept",
    ),
    Mistake(
        "tokens placed column by column",
        "build.py",
        "np.divmod(np.arange(rows * columns), columns)",
        "np.divmod(np.arange(rows * columns), rows)[::-1]",
        "test_picture_runs.py::test_tokens_stand_row_by_row",
    ),
    Mistake(
        "rows and columns of pixels exchanged",
        "classifier.py",
        "x.permute(0, 3, 1, 2)",
        "x.permute(0, 3, 2, 1)",
        "test_classifier.py::test_against_one_written_again",
    ),
    Mistake(
        "sequence pooling over channels",
        "classifier.py",
        "torch.softmax(self.pool(x), dim=1)",
        "torch.softmax(self.pool(x), dim=2)",
        "test_classifier.py::test_against_one_written_again",
    ),
    Mistake(
        "each dataset brought to a scale of its own",
        "classifier.py",
        "nn.Buffer(torch.tensor(values))",
        "nn.Buffer(torch.tensor(values), persistent=False)",
        "test_picture_runs.py::test_another_dataset_is_brought_to_the_scale_of_training",
    ),
    Mistake(
        "images augmented when they are scored",
        "build.py",
        "if training else {}",
        "if not training else {}",
        "test_picture_runs.py::test_augmentation_is_of_training_alone_and_new_in_each_epoch",
    ),
    Mistake(
        "heights and widths of images compiled as variables",
        "classifier.py",
        "sizes_vary = False",
        "sizes_vary = True",
        "test_picture_runs.py::test_compiled_only_the_rows_of_a_batch_vary",
    ),
    Mistake(
        "an augmentation that is empty taken for the preset's",
        "build.py",
        "usual if config.augment is None else config.augment",
        "config.augment or usual",
        "test_picture_runs.py::test_settings_of_the_other_model_are_refused",
    ),
    Mistake(
        "the same augmentation in every epoch",
        "dataset.py",
        "(seed or 0, epoch))",
        "(seed or 0, 0))",
        "test_picture_runs.py::test_augmentation_is_of_training_alone_and_new_in_each_epoch",
    ),
    Mistake(
        "augmentation by the place in the batch",
        "pictures.py",
        "int(row)) for row in album.row[own]]",
        "row) for row in range(own.size)]",
        "test_picture_runs.py::test_shares_are_the_batch",
    ),
    Mistake(
        "stochastic depth in evaluation",
        "model.py",
        "stochastic_depth(added, self.skip) if self.training else added",
        "stochastic_depth(added, self.skip)",
        "test_classifier.py::test_stochastic_depth_grows_over_the_layers_and_is_for_training",
    ),
    Mistake(
        "stochastic depth of a whole batch",
        "model.py",
        "torch.rand(added.shape[0], 1, 1, device",
        "torch.rand(1, 1, 1, device",
        "test_classifier.py::test_stochastic_depth",
    ),
    Mistake(
        "stochastic depth that changes the mean",
        "model.py",
        "(kept / (1 - skip))",
        "kept",
        "test_classifier.py::test_stochastic_depth",
    ),
]
