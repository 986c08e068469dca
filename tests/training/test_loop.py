"""Training: the schedule, the best checkpoint, and resuming after a kill."""

from __future__ import annotations

import math
import re
import threading
from copy import deepcopy
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
from ape_cli.runs import config
from ape_cli.runs.config import Config
from ape_cli.runs.record import TrainingResult
from ape_cli.training import loop, validation
from ape_cli.training.execution import Execution
from ape_cli.training.loop import Loop, Stopped
from ape_cli.training.setup import learning_rate
from ape_cli.training.validation import Checkpointer

CPU = torch.device("cpu")


def tiny(scheme: str, data: Dataset, **settings: Any) -> Config:
    chosen = {"steps": 20, "validate_every_steps": 5, "dropout": 0.1} | settings
    options: dict[str, Any] = {"model": "decoder"} if position.load(scheme).causal_only else {}
    found = ExperimentSpec(preset="tiny", scheme=scheme, seed=3, set=chosen, **options).config("sequence")
    return experiment.complete(found, data)


def fit(wanted: Config, data: Dataset, store: Any, execution: Execution) -> TrainingResult:
    return Loop(experiment.of(wanted, data), store, execution).run()


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


def scored(monkeypatch: pytest.MonkeyPatch, accuracies: list[float]) -> None:
    """Lets validations have these token accuracies."""
    left = iter(accuracies)

    class Tally:
        cross_entropy = 1.0

        def __init__(self, *args: Any) -> None:
            self.token_accuracy = next(left)

    monkeypatch.setattr(validation, "teacher_forced", Tally)


# The schedule


def test_learning_rate_of_the_paper() -> None:
    """1e-7 up to 5e-4 over 5% of 31,400 steps (not 1.25%), then a cosine to 1e-9."""
    paper = ExperimentSpec(preset="paper", scheme="rope").config("sequence")
    planned = Schedule(steps=31_400, warmup=math.ceil(paper.warmup * 31_400), validate_every=0)
    rates = np.array([learning_rate(s, planned, paper) for s in range(31_400)])
    assert rates[0] == 1e-7
    assert rates.argmax() == 1570 == 0.05 * 31_400
    assert rates[1570] == 5e-4
    assert np.isclose(rates[-1], 1e-9)
    assert np.allclose(np.diff(rates[:1571]), (5e-4 - 1e-7) / 1570)
    middle = 1570 + (31_399 - 1570) / 2
    assert np.isclose(np.interp(middle, np.arange(31_400), rates), (5e-4 + 1e-9) / 2, rtol=1e-6)
    assert (np.diff(rates[1570:]) < 0).all()


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


def test_every_field_reaches_what_it_is_for(words: Dataset) -> None:
    wanted = tiny("relative", words, beta1=0.8, beta2=0.97, weight_decay=0.3, d_ff=40, decay=0.7, heads=4, dropout=0.25)
    running = Loop(experiment.of(wanted, words), Memory(), Execution(CPU))
    (group,) = running.setup.optimiser.param_groups
    assert group["betas"] == (0.8, 0.97)
    assert group["weight_decay"] == 0.3
    assert running.setup.model.encoder[0].ff.inner.out_features == 40
    assert running.setup.model.scheme.shape.decay == 0.7
    assert running.setup.model.scheme.shape.heads == running.setup.model.decoder[0].cross_attention.heads == 4
    attention = running.setup.model.decoder[0].cross_attention.dropout
    assert attention == running.setup.model.dropout.p == running.setup.model.encoder[0].ff.dropout == 0.25
    other = factory.build(wanted.model_copy(update={"seed": 4}), words.structure, words.ids)
    assert not torch.equal(other.embedding, running.setup.model.embedding)


def test_a_step_follows_the_mean_gradient_of_the_batch(words: Dataset) -> None:
    """The loss is a mean over real labels: a batch with every row twice gives the same gradient."""
    wanted = tiny("rope", words, dropout=0)
    running = Loop(experiment.of(wanted, words), Memory(), Execution(CPU))
    one = next(words.split("train").batches(8, seed=1))
    twice = SequenceBatch(
        **{k: torch.cat([v, v]) if torch.is_tensor(v) and len(v) > 1 else v for k, v in vars(one).items()}
    )
    gradients = []
    for found in (one, twice):
        running._train_on(found)
        gradients.append([p.grad.clone() for p in running.setup.model.parameters()])
        running.setup.model.load_state_dict(factory.build(wanted, words.structure, words.ids).state_dict())
    for a, b in zip(*gradients, strict=True):
        assert torch.allclose(a, b, atol=1e-5)


def test_the_paper_s_preset_is_the_paper_s() -> None:
    """Table 4, appendix B, and what the authors' first release adds."""
    paper = ExperimentSpec(preset="paper", scheme="orthogonal-tree").config("sequence")
    wanted = {
        "d_model": 512, "d_ff": 2048, "heads": 8, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.15,
        "lr_initial": 1e-7, "lr_peak": 5e-4, "lr_final": 1e-9, "warmup": 0.05, "weight_decay": 0.01,
        "beta1": 0.9, "beta2": 0.999, "epochs": 200, "batch_size": 64, "validate_every_epochs": 5,
    }  # fmt: skip
    assert {k: getattr(paper, k) for k in wanted} == wanted
    assert config.PRESETS["paper"].rows == {"train": 10_000, "validation": 1_000, "test": 1_000}


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
    store, seen = Memory(), 0
    stops = {3, 4, 11, 17}

    def stop() -> bool:
        nonlocal seen
        seen += 1
        return seen in stops

    for _ in range(len(stops)):
        with pytest.raises(Stopped):
            fit(wanted, data, store, Execution(CPU, stop=stop))
    torch.manual_seed(100)
    result = fit(wanted, data, store, Execution(CPU, stop=stop))
    assert result.steps == straight.steps == 20
    assert result.best_step == straight.best_step
    for name, value in weights(whole).items():
        assert torch.equal(value, weights(store)[name]), name
    assert whole.model is not None
    assert store.model is not None
    for name, value in whole.model.items():
        assert torch.equal(value, store.model[name]), name
    timed = {"seconds"}
    strip = [[{k: v for k, v in r.items() if k not in timed} for r in s.history] for s in (whole, store)]
    assert strip[0] == strip[1]


# Prefetching


def test_batches_ahead_are_the_same_batches(words: Dataset, trees: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a thread that makes batches, as on a GPU, everything that is stored is the same as without one."""
    wanted = tiny("rope", words)
    alone, beside = Memory(), Memory()
    fit(wanted, words, alone, Execution(CPU))
    monkeypatch.setattr(loop, "_AHEAD", {"cpu": 3})
    fit(wanted, words, beside, Execution(CPU))
    for name, value in weights(alone).items():
        assert torch.equal(value, weights(beside)[name]), name
    check_resume(tiny("orthogonal-tree", trees), trees)


def test_the_thread_ends_with_the_loop(words: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_AHEAD", {"cpu": 3})
    before, threads = threading.active_count(), []

    def stop() -> bool:
        threads.append(threading.active_count() - before)
        return len(threads) == 3

    with pytest.raises(Stopped):
        fit(tiny("rope", words), words, Memory(), Execution(CPU, stop=stop))
    assert threads == [1, 1, 1]
    assert threading.active_count() == before


# Failures


@pytest.mark.parametrize("where", ["value", "gradient"])
def test_the_first_step_is_not_a_matter_of_the_learning_rate(
    words: Dataset, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """An own scheme gives NaN at once. With a scheme of this package, the advice is a smaller learning rate."""

    class Broken(position.load("learned")):  # type: ignore[misc]
        def embed(self, x: torch.Tensor, context: position.Context) -> torch.Tensor:
            found = super().embed(x, context)
            if where == "value":
                return found * float("nan")
            found.register_hook(lambda gradient: gradient * float("nan"))  # type: ignore[no-untyped-call]
            return found  # type: ignore[no-any-return]

    for own, advice in ((True, r"gradients of scheme 'learned', and correct it"), (False, "use a smaller `lr_peak`")):
        running = Loop(experiment.of(tiny("learned", words), words), Memory(), Execution(CPU))
        running.setup.model.scheme.__class__ = Broken
        parts = {"scheme 'learned'": Broken} if own else {}
        monkeypatch.setattr("ape_cli.training.step.own_parts", lambda *names, parts=parts: parts)
        with pytest.raises(RunError, match=rf"step {1 if where == 'value' else 2} of 20") as caught:
            running.run()
        assert re.search(advice, str(caught.value))


@pytest.mark.parametrize(("poisoned", "said", "due"), [(3, 4, 5), (4, 5, 5), (5, 5, 5), (3, 3, 3)])
def test_nothing_is_stored_that_is_no_number(
    words: Dataset, monkeypatch: pytest.MonkeyPatch, poisoned: int, said: int, due: int
) -> None:
    """If weights become not finite at a step, the next loss or the attempt to store them shows it."""
    store = Memory()
    running = Loop(experiment.of(tiny("rope", words), words), store, Execution(CPU))
    monkeypatch.setattr(Checkpointer, "due", lambda self, validated: running.at.step == due)

    def poison(*args: Any) -> None:
        if running.at.step == poisoned - 1:  # the step itself is counted after it
            with torch.no_grad():
                running.setup.model.embedding[0, 0] = float("nan")
                running.setup.model.embedding[5] = float("nan")

    running.setup.optimiser.register_step_post_hook(poison)
    with pytest.raises(RunError, match=rf"no longer a number[\s\S]*step {said} of 20"):
        running.run()
    assert store.state is None
    assert store.model is None
    assert store.history == []


def test_a_validation_whose_loss_is_not_finite(words: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights and the training loss are finite. A history with such a row could not be read."""
    store, score = Memory(), validation.teacher_forced

    def overflowing(*given: Any) -> metrics.MetricSums:
        found = score(*given)
        found.nats[0][0] = np.inf
        return found

    monkeypatch.setattr(validation, "teacher_forced", overflowing)
    with pytest.raises(RunError, match=r"no longer a number[\s\S]*step 5 of 20"):
        Loop(experiment.of(tiny("rope", words), words), store, Execution(CPU)).run()
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
    with pytest.raises(UsageError, match="not bounded"):
        tiny("rope", words, max_size=5)


def test_settings_without_an_effect_are_refused(words: Dataset) -> None:
    with pytest.raises(UsageError, match="rope adds nothing to the embeddings"):
        tiny("rope", words, positions_scale=0.5)
    with pytest.raises(UsageError, match="no dropout to place"):
        tiny("rope", words, dropout_places="branches", dropout=0.0)
    assert tiny("sinusoidal", words, positions_scale=0.5).positions_scale == 0.5
    assert tiny("rope", words, dropout_places="branches", dropout=0.1).dropout_places == "branches"


def test_settings_are_checked() -> None:
    assert ExperimentSpec(preset="small", scheme="rope", set={"epochs": 3}).config("sequence").steps is None
    for settings, message in [
        ({"d_model": "wide"}, "bad value of d_model"),
        ({"dropout": 1.0}, "bad value of dropout"),
        ({"lr_peak": float("nan")}, "bad value of lr_peak"),
        ({"epochs": 3, "steps": 5}, "exclude each other"),
    ]:
        with pytest.raises(UsageError, match=message):
            ExperimentSpec(preset="small", scheme="rope", set=settings).config("sequence")


def test_where_nothing_compiles_it_is_said(words: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("no compiler\nanywhere")

    monkeypatch.setattr(torch, "compile", broken)
    with pytest.raises(UsageError, match=r"torch\.compile does not work here") as error:
        Loop(experiment.of(tiny("rope", words), words), Memory(), Execution(CPU, compiled=True))
    assert error.value.got == "no compiler"
