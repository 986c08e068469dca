"""A check against a published result: multi-query associative recall, as zoology trains and scores it.

Source: Arora et al. 2023, arXiv:2312.04927, figure 2, attention at length 64 and width 64. The facts below are from
github.com/HazyResearch/zoology, commit d88d6f5: `zoology/experiments/paper_configs/iclr24_zoology_figure2/configs.py`,
`zoology/data/multiquery_ar.py`, `zoology/config.py`, `zoology/model.py`, `zoology/train.py`.

The same: 64 tokens, 4 pairs, 8,192 symbols, blanks between the queries, 100,000 training and 3,000 test rows; a causal
transformer that reads each row once and predicts a value at each query; width 64, 2 layers, one head, tied embeddings;
batches of 512, AdamW with weight decay 0.1, a cosine over 64 epochs, an end as soon as 99% of the values are right;
dropout 0.1 of embeddings and attention weights, and none of what the layers add.

Deviations: values are drawn with repetition; a feed-forward network of one channel, because a layer cannot be without
one; the initialisation of this package, with embeddings of variance 1 in the place of 0.02^2;
training rows are shuffled in each epoch. The end is decided with validation rows, and test rows are used once.

Run `python examples/recall.py --scheme learned`. It takes about a minute for each epoch, on one CPU core.

Shapes: B rows, L tokens, Q queries.
"""

from __future__ import annotations

import argparse
import math
import time

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ape_cli import position, tasks
from ape_cli.models.decoder import DecoderOnly
from ape_cli.models.device import tune

LENGTH, WIDTH, BATCH, EPOCHS = 64, 64, 512, 64


def data(task: tasks.BaseTask, rows: int, split: str) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of a split: their tokens, int64 [rows, L], the places of the queries and the answers, int64 [rows, Q]."""
    table = task.sample(rows=range(rows), split=split, seed=42)
    ids, tags = (
        torch.from_numpy(table[f"{side}_ids"].combine_chunks().values.to_numpy().astype("int64")).view(rows, LENGTH)
        for side in ("source", "target")
    )
    place = tags.nonzero()[:, 1].view(rows, -1)
    return ids, place, tags.gather(1, place)


def share(model: DecoderOnly, ids: Tensor, place: Tensor, answer: Tensor) -> float:
    """The share of the values that the model predicts, of rows that have the same number of queries."""
    model.eval()
    with torch.no_grad():
        parts = zip(ids.split(BATCH), place.split(BATCH), answer.split(BATCH), strict=True)
        right = sum(int((model(x, positions(), at).argmax(-1) == y).sum()) for x, at, y in parts)
    model.train()
    return right / answer.numel()


def positions() -> Tensor:
    """The positions of the tokens, int64 [1, L]."""
    return torch.arange(1, LENGTH + 1)[None]


def main() -> None:
    """Train one model, and print its progress and its score."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--scheme", default="learned")
    parser.add_argument("--lr", type=float, default=0.00215, help="zoology: 0.0001, 0.000464, 0.00215 and 0.01")
    parser.add_argument("--branch-dropout", type=float, default=0.0, help="dropout of what layers add; zoology: 0")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after this time")
    parser.add_argument("--seed", type=int, default=42)
    options = parser.parse_args()
    tune()

    task = tasks.make("associative-recall", pairs=4, keys=4095, values=4096, length=LENGTH, filler="blank")
    train, valid, test = (data(task, *part) for part in ((100_000, "train"), (3_000, "validation"), (3_000, "test")))
    torch.manual_seed(options.seed)
    scheme = position.make(options.scheme, WIDTH, 1, max_size=LENGTH, decay=1.0)
    model = DecoderOnly(scheme, ids=len(task.id_names), d_ff=1, layers=2, sides=False, dropout=0.1)
    for layer in model.decoder.children():
        layer.dropout.p = options.branch_dropout
    optimiser = torch.optim.AdamW(model.parameters(), lr=options.lr, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=EPOCHS)
    begin, steps = time.monotonic(), 0
    for epoch in range(1, EPOCHS + 1):
        for rows in torch.randperm(len(train[0])).split(BATCH):
            ids, place, answer = (x[rows] for x in train)
            loss = cross_entropy(model(ids, positions(), place).flatten(0, 1), answer.flatten())
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            steps += 1
        schedule.step()
        right, minutes = share(model, *valid), (time.monotonic() - begin) / 60
        print(f"epoch {epoch}, {steps} steps, {minutes:.1f} min: loss {loss.item():.3f}, validation {right:.2%}")
        if right > 0.99 or minutes > options.minutes:
            break
    print(f"{options.scheme}, lr {options.lr:g}, seed {options.seed}: {share(model, *test):.2%} of the test values")


if __name__ == "__main__":
    main()
