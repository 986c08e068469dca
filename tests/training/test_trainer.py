"""Training: the steps, their sums and times, the best weights, and resuming after a stop."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from ape_cli import experiment, position
from ape_cli.core.errors import RunError, UsageError
from ape_cli.data.batches import SequenceBatch
from ape_cli.data.loader import Dataset
from ape_cli.evaluation import metrics
from ape_cli.experiment import ExperimentSpec
from ape_cli.models import factory
from ape_cli.models.checkpoint import Schedule
from ape_cli.runs.config import Config
from ape_cli.runs.record import TrainingResult
from ape_cli.training import trainer
from ape_cli.training.execution import Execution
from ape_cli.training.loggers import MetricLogger
from ape_cli.training.schedule import learning_rate
from ape_cli.training.trainer import Stopped, Trainer

CPU = torch.device("cpu")


def tiny(scheme: str, data: Dataset, **settings: Any) -> Config:
    chosen = {"steps": 20, "validate_every_steps": 5, "dropout": 0.1} | settings
    options: dict[str, Any] = {"model": "decoder"} if position.load(scheme).causal_only else {}
    found = ExperimentSpec(preset="tiny", scheme=scheme, seed=3, set=chosen, **options).config("sequence")
    return experiment.complete(found, data)


def fit(wanted: Config, data: Dataset, store: Any, execution: Execution) -> TrainingResult:
    return Trainer(experiment.of(wanted, data), store, execution).run()


class Memory:
    """A store that keeps copies."""

    def __init__(self) -> None:
        self.state: tuple[dict, dict] | None = None

    def save_state(self, state: dict, progress: dict) -> None:
        self.state = {k: v.clone() for k, v in state.items()}, deepcopy(progress)

    def load_state(self) -> tuple[dict, dict] | None:
        return None if self.state is None else ({k: v.clone() for k, v in self.state[0].items()}, dict(self.state[1]))

    @property
    def history(self) -> list[dict]:
        return self.state[1]["history"] if self.state else []

    @property
    def model(self) -> dict | None:
        """The best weights: those of the state that has them, or its current ones."""
        if self.state is None:
            return None
        kind = "best." if any(name.startswith("best.") for name in self.state[0]) else "model."
        return {k.removeprefix(kind): v for k, v in self.state[0].items() if k.startswith(kind)}


def stopping_at(*steps: int) -> Callable[[], bool]:
    """A stop signal that is true after these calls of it, of which there is one after each step."""
    asked = itertools.count(1)
    return lambda: next(asked) in steps


def of_before(store: Memory) -> None:
    """Turns a state into one of version 0.2, which numbered epochs by their index and stored no schedule."""
    assert store.state is not None
    for name in ("schedule", "training_seconds", "recent"):
        del store.state[1][name]


def scored(monkeypatch: pytest.MonkeyPatch, accuracies: list[float]) -> None:
    """Lets validations have these token accuracies."""
    left = iter(accuracies)

    class Tally:
        cross_entropy = 1.0

        def __init__(self, *args: Any) -> None:
            self.token_accuracy = next(left)

    monkeypatch.setattr(trainer, "teacher_forced", Tally)


# Steps


def test_the_optimiser_follows_the_schedule(words: Dataset) -> None:
    store = Memory()
    wanted = tiny("rope", words, steps=20, validate_every_steps=1)
    fit(wanted, words, store, Execution(CPU))
    planned = Schedule(steps=20, warmup=1, validate_every=1)
    assert [r["lr"] for r in store.history] == [learning_rate(s, planned, wanted) for s in range(20)]

    def moved(first: float, peak: float) -> float:
        """The distance of the weights from their start after two steps, of which the second has the peak rate."""
        found = Memory()
        chosen = tiny("rope", words, steps=2, validate_every_steps=1, lr_initial=first, lr_peak=peak, lr_final=first)
        fit(chosen, words, found, Execution(CPU))
        fresh = factory.build(chosen, words.structure, words.ids).state_dict()
        assert found.state is not None
        return float(sum((found.state[0][f"model.{k}"] - v).abs().sum() for k, v in fresh.items()))

    planned = Schedule(steps=2, warmup=1, validate_every=1)
    assert [learning_rate(s, planned, tiny("rope", words, steps=2)) for s in range(2)] == [1e-7, 1e-3]
    assert moved(1e-6, 1e-3) > 50 * moved(1e-6, 1e-6) > 0  # the same rate all the time, if the schedule has no effect


def test_complex_weights_are_trained(words: Dataset) -> None:
    weights: Any = torch.nn.ParameterList([torch.ones(2, dtype=torch.complex64)])
    weights[0].abs().sum().backward()
    trainer._optimiser(tiny("none", words, lr_initial=0.1), weights, CPU).step()
    assert (weights[0].real < 1).all()


def test_every_field_reaches_what_it_is_for(words: Dataset) -> None:
    wanted = tiny("relative", words, beta1=0.8, beta2=0.97, weight_decay=0.3, d_ff=40, decay=0.7, heads=4, dropout=0.25)
    running = Trainer(experiment.of(wanted, words), Memory(), Execution(CPU))
    assert torch.equal(torch.get_rng_state(), torch.Generator().manual_seed(wanted.seed).get_state())  # for dropout
    (group,) = running.optimiser.param_groups
    assert group["betas"] == (0.8, 0.97)
    assert group["weight_decay"] == 0.3
    assert running.model.encoder[0].ff.inner.out_features == 40
    assert running.model.scheme.shape.decay == 0.7
    assert running.model.scheme.shape.heads == running.model.decoder[0].cross_attention.heads == 4
    attention = running.model.decoder[0].cross_attention.dropout
    assert attention == running.model.dropout.p == running.model.encoder[0].ff.dropout == 0.25
    other = factory.build(wanted.model_copy(update={"seed": 4}), words.structure, words.ids)
    pairs = zip(other.named_parameters(), running.model.parameters(), strict=True)
    alike = [name for (name, weight), of_other_seed in pairs if torch.equal(weight, of_other_seed)]
    assert [name for name in alike if "norm" not in name and not name.endswith("bias")] == []  # also the scheme's


def test_a_step_follows_the_mean_gradient_of_the_batch(words: Dataset) -> None:
    """The loss is a mean over real labels: a batch with every row twice gives the same gradient."""
    wanted = tiny("rope", words, dropout=0)
    running = Trainer(experiment.of(wanted, words), Memory(), Execution(CPU))
    one = next(words.split("train").batches(8, seed=1))
    twice = SequenceBatch(
        **{k: torch.cat([v, v]) if torch.is_tensor(v) and len(v) > 1 else v for k, v in vars(one).items()}
    )
    gradients = []
    for found in (one, twice):
        running.step(found)
        gradients.append([p.grad.clone() for p in running.model.parameters()])
        running.model.load_state_dict(factory.build(wanted, words.structure, words.ids).state_dict())
    for a, b in zip(*gradients, strict=True):
        assert torch.allclose(a, b, atol=1e-5)


def test_labels_are_smoothed_and_padding_is_not_counted(words: Dataset) -> None:
    """The loss of a step takes a tenth of each label's probability from it, and spreads it evenly over all ids."""
    running = Trainer(experiment.of(tiny("rope", words, dropout=0, label_smoothing=0.1), words), None, Execution(CPU))
    batch = next(words.split("train").batches(8))
    assert not batch.label_mask.all()
    logs, there = running.model(*batch.inputs).detach().log_softmax(-1), batch.label_mask
    right = logs.gather(2, batch.labels[..., None]).squeeze(2)
    expected = -(0.9 * right + 0.1 * logs.mean(-1))[there].sum()
    correct = (logs.argmax(-1) == batch.labels)[there].sum()
    total, counted = running.update(batch, int(there.sum()))
    assert float(total) == pytest.approx(float(expected), rel=1e-5)
    assert int(counted) == int(correct)


def test_each_line_of_the_history_is_of_the_steps_since_the_one_before(words: Dataset, monkeypatch: Any) -> None:
    store, steps = Memory(), list[tuple[float, int, int]]()
    running = Trainer(experiment.of(tiny("none", words, validate_every_steps=7), words), store, Execution(CPU))
    update = running.update

    def recorded(batch: Any, labels: Any) -> Any:
        nats, correct = update(batch, labels)
        steps.append((float(nats), int(correct), labels))
        return nats, correct

    monkeypatch.setattr(running, "update", recorded)
    running.run()
    for line, some in zip(store.history, (steps[:7], steps[7:14], steps[14:]), strict=True):
        nats, correct, labels = map(sum, zip(*some, strict=True))
        assert line["loss"] == pytest.approx(nats / labels)
        assert line["token_accuracy"] == correct / labels


# The best checkpoint


def test_best_by_validation_and_the_test_split_is_never_read(words: Dataset, monkeypatch: Any) -> None:
    opened = []
    real = Dataset.split
    monkeypatch.setattr(Dataset, "split", lambda self, name: opened.append(name) or real(self, name))
    store = Memory()
    result = fit(tiny("rope", words, steps=30), words, store, Execution(CPU))
    assert set(opened) == {"train", "validation"}
    accuracies = [r["validation_token_accuracy"] for r in store.history]
    best = int(np.argmax(accuracies))  # the first of equal accuracies
    assert store.model is not None
    assert result.best_step == store.history[best]["step"]
    assert result.best_accuracy == max(accuracies)
    model = factory.build(tiny("rope", words), words.structure, words.ids)
    model.load_state_dict(store.model)
    assert result.parameters == sum(value.numel() for value in store.model.values())
    again = metrics.teacher_forced(model, words.split("validation").batches(16), CPU, "fp32")
    assert again.token_accuracy == result.best_accuracy


# Resuming


def weights(store: Memory) -> dict[str, torch.Tensor]:
    assert store.state is not None
    return {k: v for k, v in store.state[0].items() if k.startswith("model.")}


def check_resume(wanted: Config, data: Dataset) -> None:
    """Bit for bit: weights, optimiser, dropout, order of batches, history, and the choice of the best."""
    whole = Memory()
    straight = fit(wanted, data, whole, Execution(CPU))

    torch.manual_seed(99)
    store, execution = Memory(), Execution(CPU, stop=stopping_at(3, 4, 11, 17))
    for _ in range(4):
        with pytest.raises(Stopped):
            fit(wanted, data, store, execution)
    torch.manual_seed(100)
    result = fit(wanted, data, store, execution)
    assert result.steps == straight.steps == 20
    assert result.best_step == straight.best_step
    assert whole.model is not None
    assert store.model is not None
    for expected, resumed in ((weights(whole), weights(store)), (whole.model, store.model)):
        for name, value in expected.items():
            assert torch.equal(value, resumed[name]), name
    histories = [[row | {"seconds": 0} for row in memory.history] for memory in (whole, store)]
    assert histories[0] == histories[1]


# Prefetching


def test_batches_ahead_are_the_same_batches(words: Dataset, trees: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a thread that makes batches, as on a GPU, everything that is stored is the same as without one."""
    wanted = tiny("rope", words)
    alone, beside = Memory(), Memory()
    fit(wanted, words, alone, Execution(CPU))
    monkeypatch.setattr(trainer, "_AHEAD", {"cpu": 3})
    fit(wanted, words, beside, Execution(CPU))
    for name, value in weights(alone).items():
        assert torch.equal(value, weights(beside)[name]), name
    check_resume(tiny("orthogonal-tree", trees), trees)


# Sums and time


class Clock:
    """A clock that moves only when something is done, by as many seconds as that takes here."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(trainer, "time", SimpleNamespace(perf_counter=lambda: self.now))
        for owner, name, seconds in (
            (Trainer, "update", 2.0),
            (Trainer, "score", 1000.0),
            (Trainer, "save", 100.0),
        ):
            monkeypatch.setattr(owner, name, self.taking(seconds, getattr(owner, name)))

    def taking(self, seconds: float, call: Any) -> Any:
        def called(*given: Any) -> Any:
            found = call(*given)
            self.now += seconds
            return found

        return called


class Slow(MetricLogger):
    """A logger that takes ten seconds for each call, and keeps the metrics."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.lines = clock, list[dict[str, float]]()

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self.clock.now += 10.0
        self.lines.append(dict(metrics))

    def flush(self) -> None:
        self.clock.now += 10.0

    def close(self) -> None: ...


@pytest.mark.parametrize("every", [7, 20])
def test_the_speed_is_that_of_the_steps_alone(words: Dataset, monkeypatch: pytest.MonkeyPatch, every: int) -> None:
    """However often a run is validated, stored and logged, also if it was stopped; `seconds` has all of it."""
    clock, store = Clock(monkeypatch), Memory()
    monkeypatch.setattr(Trainer, "due", lambda self: self.progress.step % 3 == 0)
    logger, results = Slow(clock), list[TrainingResult]()
    execution = Execution(CPU, stop=stopping_at(13))
    for _ in range(2):
        clock.now += 1e6  # to start a process
        wanted = experiment.of(tiny("none", words, validate_every_steps=every), words)
        running = Trainer(wanted, store, execution)
        clock.now += 500.0  # to open loggers
        try:
            results.append(running.run([logger]))
        except Stopped:
            assert running.progress.training_seconds == 26.0
    (result,), at = results, running.progress
    assert at.training_seconds == 40.0  # 20 steps of two seconds
    assert result.tokens_per_second == at.tokens / 40.0
    recent = [line["tokens_per_second"] for line in logger.lines if "recent_loss" in line]
    assert len(recent) == 2
    assert sum(recent) * 20.0 == pytest.approx(at.tokens)  # ten steps each
    stored = len({3, 6, 9, 12, 13, 15, 18, 20})
    validated = 20 // every + (every == 7)
    others = 1000 * validated + 100 * (stored - 1) + 10 * (validated + len(recent) + stored) + 2 * 500
    assert result.seconds == 40 + others  # a stored time cannot have the time of storing it


def test_the_sums_of_a_stopped_run_go_on(words: Dataset) -> None:
    """The recent metrics after a resume cover all steps since they were last logged, also those before it."""
    lines: list[list[tuple[int, dict[str, float]]]] = []
    for stops in ((), (13, 16)):
        logged: list[tuple[int, dict[str, float]]] = []
        log = lambda step, metrics, logged=logged: logged.append((step, dict(metrics)))  # noqa: E731
        logger: Any = SimpleNamespace(log=log, flush=lambda: None)
        store, execution = Memory(), Execution(CPU, stop=stopping_at(*stops))
        for _ in range(1 + len(stops)):
            torch.manual_seed(9)
            with suppress(Stopped):
                Trainer(experiment.of(tiny("none", words), words), store, execution).run([logger])
        timed = {"seconds", "tokens_per_second"}
        lines.append([(step, {k: v for k, v in metrics.items() if k not in timed}) for step, metrics in logged])
    assert lines[0] == lines[1]


# Failures


@pytest.mark.parametrize(("poisoned", "said", "due"), [(3, 4, 5), (3, 3, 3)])
def test_nothing_is_stored_that_is_no_number(
    words: Dataset, monkeypatch: pytest.MonkeyPatch, poisoned: int, said: int, due: int
) -> None:
    """If weights become not finite at a step, the next loss or the attempt to store them shows it."""
    store = Memory()
    running = Trainer(experiment.of(tiny("rope", words), words), store, Execution(CPU))
    monkeypatch.setattr(Trainer, "due", lambda self: running.progress.step == due)

    def poison(*args: Any) -> None:
        if running.progress.step == poisoned - 1:  # the step itself is counted after it
            with torch.no_grad():
                running.model.embedding[0, 0] = float("nan")
                running.model.embedding[5] = float("nan")

    running.optimiser.register_step_post_hook(poison)
    with pytest.raises(RunError, match=rf"no longer a number[\s\S]*step {said} of 20"):
        running.run()
    assert store.state is None
    assert store.model is None
    assert store.history == []


def test_a_validation_whose_loss_is_not_finite(words: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights and the training loss are finite. A history with such a row could not be read."""
    store, score = Memory(), trainer.teacher_forced

    def overflowing(*given: Any) -> metrics.MetricSums:
        found = score(*given)
        found.nats[0][0] = np.inf
        return found

    monkeypatch.setattr(trainer, "teacher_forced", overflowing)
    with pytest.raises(RunError, match=r"no longer a number[\s\S]*step 5 of 20"):
        Trainer(experiment.of(tiny("rope", words), words), store, Execution(CPU)).run()
    assert store.state is None


def test_bounded_schemes_are_made_for_the_largest_size_of_training(words: Dataset, trees: Dataset) -> None:
    """The longest word with its EOS, the greatest depth, and the most nodes."""
    lengths = words.split("train").table()["size"].to_numpy()
    assert tiny("relative", words).max_size == lengths.max() + 1 > words.manifest.mean_size + 1
    table = trees.split("train").table()
    assert tiny("tree", trees).max_size == table["size"].to_numpy().max() > trees.manifest.mean_size
    nodes = max(len(nodes) for side in ("source_ids", "target_ids") for nodes in table[side].to_pylist())
    assert tiny("relative", trees).max_size == nodes > trees.manifest.mean_tokens
    assert tiny("rope", words).max_size is None


def test_settings_that_are_wrong_or_have_no_effect_are_refused(words: Dataset) -> None:
    for settings, message in [
        ({"positions_scale": 0.5}, "adds nothing"),
        ({"d_model": "wide"}, "bad value of d_model"),
        ({"dropout_places": "branches", "dropout": 0.0}, "no dropout to place"),
        ({"dropout": 1.0}, "bad value of dropout"),
        ({"lr_peak": float("nan")}, "bad value of lr_peak"),
        ({"epochs": 3, "steps": 5}, "exclude each other"),
        ({"max_size": 5}, "not bounded"),
    ]:
        with pytest.raises(UsageError, match=message):
            tiny("rope", words, **settings)
    assert tiny("sinusoidal", words, positions_scale=0.5).positions_scale == 0.5
    assert tiny("rope", words, dropout_places="branches", dropout=0.1).dropout_places == "branches"
