"""Mistakes in the schedule of a run, its epochs, its logs and its times."""

from __future__ import annotations

from tests.mistakes._mistake import read

MISTAKES = read("""
an order of batches that depends on how the rows are divided into files
  Rows.__init__  data/test_loader.py::test_batches_do_not_depend_on_shards
  - [range(i, min(i + ROW_GROUP, self.rows)) for i in range(0, self.rows, ROW_GROUP)]
  + [range(end - rows, end) for end, rows in zip(self._ends, (rows for groups in sizes for rows in groups))]
a pass that ends at a validation not counted
  Trainer.batches  training/test_schedule.py::test_the_history_counts_complete_passes
  - epoch + number // count, number % count, ready
  + epoch, number, ready
epochs that count as many batches as the rows in the order of the files
  schedule  training/test_schedule.py::test_epochs_have_each_row_once
  - train.steps(config.batch_size, config.seed, epochs=config.epochs or 1)
  + (config.epochs or 1) * train.steps(config.batch_size)
an additional step of warm-up by the rounding of a product
  schedule  training/test_schedule.py::test_the_warm_up_is_the_smallest_whole_number_that_is_not_below_its_fraction
  - math.ceil(Fraction(str(config.warmup)) * steps)
  + math.ceil(config.warmup * steps)
a run that was begun with another schedule, resumed with the present one
  Trainer._restored  training/test_schedule.py::test_a_run_of_before_keeps_its_schedule
  - earlier_schedule(config, self.train).model_dump()
  + new.schedule.model_dump()
a state that is stored before what was logged is written
  Trainer._store  training/loggers/test_json_lines.py::test_a_killed_run_has_logged_what_its_state_has_behind_it
  - logger.flush()
  + pass
recent sums that start again when a run resumes
  Trainer._restored  training/test_trainer.py::test_the_sums_of_a_stopped_run_go_on
  - Progress.model_validate(fields)
  + Progress.model_validate({**fields, "recent": {}})
validations in the mean speed of training
  Trainer.run  training/test_trainer.py::test_the_speed_is_that_of_the_steps_alone
  - progress.tokens / max(progress.training_seconds, 1e-9)
  + progress.tokens / max(progress.seconds, 1e-9)
the time between two readings counted as training, whatever was done in it
  Trainer._resume_clock  training/test_trainer.py::test_the_speed_is_that_of_the_steps_alone
  - self._clock()
  + pass
the time of writing logs counted as training
  Trainer._store  training/test_trainer.py::test_the_speed_is_that_of_the_steps_alone
  - self._read()
""")
