"""Mistakes in the schedule of a run, its epochs, its logs and its times."""

from __future__ import annotations

from tests.mistakes._mistake import read

MISTAKES = read("""
an order of batches that depends on how the rows are divided into files
  Rows.__init__  data/test_loader.py::test_batches_do_not_depend_on_shards
  - [range(i, min(i + ROW_GROUP, self.rows)) for i in range(0, self.rows, ROW_GROUP)]
  + [range(end - rows, end) for end, rows in zip(self._ends, (rows for groups in sizes for rows in groups))]
a pass that ends at a validation not counted
  Setup.batches  training/test_setup.py::test_the_history_counts_complete_passes
  - epoch + number // count, number % count, ready
  + epoch, number, ready
epochs that count as many batches as the rows in the order of the files
  schedule  training/test_setup.py::test_epochs_have_each_row_once
  - train.steps(config.batch_size, config.seed, epochs=config.epochs or 1)
  + (config.epochs or 1) * train.steps(config.batch_size)
an additional step of warm-up by the rounding of a product
  schedule  training/test_setup.py::test_the_warm_up_is_the_smallest_whole_number_that_is_not_below_its_fraction
  - math.ceil(Fraction(str(config.warmup)) * steps)
  + math.ceil(config.warmup * steps)
a run that was begun with another schedule, resumed with the present one
  restore  training/test_setup.py::test_a_run_of_before_keeps_its_schedule
  - earlier_schedule(config, setup.train).model_dump()
  + setup.schedule.model_dump()
the learning rate of the present schedule in a run that has another one
  Loop.__init__  training/test_setup.py::test_a_run_of_before_keeps_its_schedule
  - replace(setup, schedule=self.at.schedule)
  + setup
a state that is stored before what was logged is written
  Loop._store  training/loggers/test_json_lines.py::test_a_killed_run_has_logged_what_its_state_has_behind_it
  - logger.flush()
  + pass
recent sums that start again when a run resumes
  restore  training/test_step.py::test_the_sums_of_a_stopped_run_go_on
  - TrainState.model_validate(progress)
  + TrainState.model_validate({**progress, "recent": {}})
validations in the mean speed of training
  Loop.run  training/test_step.py::test_the_speed_is_that_of_the_steps_alone
  - at.tokens / max(at.training_seconds, 1e-9)
  + at.tokens / max(at.seconds, 1e-9)
the time between two readings counted as training, whatever was done in it
  Meter.resume  training/test_step.py::test_the_speed_is_that_of_the_steps_alone
  - self.clock()
  + pass
the time of writing logs counted as training
  Loop._store  training/test_step.py::test_the_speed_is_that_of_the_steps_alone
  - self.meter.read()
""")
