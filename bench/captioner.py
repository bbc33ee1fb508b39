"""How much faster is the captioner than its plain formulation? Same weights, same results, interleaved rounds.

    python bench/captioner.py              # 64 images, 36 regions of 2048, vocabulary 7,000, hidden 512
    python bench/captioner.py --rounds 3   # quicker, noisier

Every case is first checked (losses, gradients, captions and log-probabilities agree within 1e-5), then timed in turns,
so that a busy machine slows both alike. The table gives medians and the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from reference_captioner import Reference
from results import compare, row, told, write
from torch import Tensor

from groundling import decoding
from groundling.models.layers import Additive, Plain
from groundling.models.updown import UpDown
from groundling.tensors import Regions
from groundling.types import BOS, EOS, PAD

BATCH, REGIONS, FEATURE, VOCAB, HIDDEN, LENGTH = 64, 36, 2048, 7000, 512, 17  # 16 words and EOS

# Words per caption, in thousandths, of 35,000 Flickr8k captions cut at 16 words as the papers do (10.6 on average).
LENGTHS = (4, 11, 29, 65, 85, 98, 110, 113, 103, 93, 77, 62, 44, 107)  # of 3, 4, ... 16 words


def captions(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Inputs and targets (n, T) of natural length: BOS words, words EOS."""
    lengths = 3 + torch.tensor(LENGTHS, dtype=torch.float).multinomial(n, replacement=True, generator=generator)
    tokens = torch.randint(4, VOCAB, (n, int(lengths.max()) + 2), generator=generator)
    place = torch.arange(tokens.shape[1])
    tokens[:, 0] = BOS
    tokens[place == lengths[:, None] + 1] = EOS
    tokens[place > lengths[:, None] + 1] = PAD
    return tokens[:, :-1], tokens[:, 1:]


def regions(n: int, generator: torch.Generator) -> Regions:
    feats = torch.rand(n, REGIONS, FEATURE, generator=generator)
    corners = torch.rand(n, REGIONS, 4, generator=generator) * 250
    corners[..., 2:] += corners[..., :2]
    return Regions.stack([Regions.of(f, b, (500, 500)) for f, b in zip(feats, corners, strict=True)])


@torch.no_grad()
def captioner() -> UpDown:
    """Random weights that give varied words and captions of natural length.

    One unit of the language LSTM is made a clock (it adds a tenth at every step), and EOS depends on it, so that
    captions end around the eleventh word, some sooner and some later, as trained ones do.
    """
    torch.manual_seed(0)
    model = UpDown(VOCAB, Plain(FEATURE, HIDDEN), Additive(HIDDEN, HIDDEN), HIDDEN, HIDDEN)
    for layer in (model.word_gates, model.attention_gates, model.language_gates):
        layer.weight.mul_(2.5)
    model.logits.weight.mul_(12)
    clock = [gate * HIDDEN for gate in range(4)]  # the first unit's rows among i, f, g, o
    model.language_gates.weight[clock] = 0
    model.language_gates.bias[clock] = torch.tensor([10, 10, torch.atanh(torch.tensor(0.1)), 10])
    model.logits.weight[:, 0] = 0
    model.logits.weight[EOS, 0] = 20
    model.logits.bias[EOS] = -20 * torch.tanh(torch.tensor(1.15)) + 6
    return model


def cross_entropy(model: UpDown, seen: Regions, image_of: Tensor, inputs: Tensor, targets: Tensor) -> Tensor:
    result = model(model.encode(seen)[image_of], inputs, targets)
    return -result.logp.sum() / result.real.sum()


@torch.no_grad()
def close(name: str, ours: Tensor, theirs: Tensor) -> None:
    difference = float((ours - theirs).abs().max() / theirs.abs().max())
    if not difference < 1e-5:
        raise SystemExit(f"{name}: the two formulations differ by {difference:.1e}")


def check_training(ours: UpDown, plain: Reference, batch: tuple[Regions, Tensor, Tensor, Tensor]) -> None:
    """The loss in float32, the gradients in float64: summed in another order, float32 alone differs by about 1e-5."""
    for model in (ours, plain):
        model.eval().zero_grad()
    with torch.no_grad():
        close("loss", cross_entropy(ours, *batch), plain(*batch))
    seen, *rest = batch
    exact = (replace(seen, feats=seen.feats.double()), *rest)
    mine, theirs = cross_entropy(ours.double(), *exact), plain.double()(*exact)
    mine.backward()
    theirs.backward()
    h = HIDDEN
    assert isinstance(ours.attend, Additive)
    for name, a, b in (
        ("features", ours.encoder.embed[0].weight, plain.feature.weight),
        ("words", ours.embed.weight, plain.embed.weight),
        ("keys", ours.attend.of_memory.weight, plain.project_region.weight),
        ("queries", ours.attend.of_query.weight, plain.project_hidden.weight),
        ("weigh", ours.attend.weigh.weight, plain.weigh.weight),
        ("logits", ours.logits.weight, plain.logits.weight),
    ):
        assert a.grad is not None and b.grad is not None
        close(f"gradient of {name}", a.grad, b.grad)
    for name, a, b in (
        ("attention LSTM", ours.attention_gates.weight.grad[:, h:], plain.attention_lstm.weight_hh.grad),
        ("language LSTM", ours.language_gates.weight.grad[:, 2 * h :], plain.language_lstm.weight_hh.grad),
    ):
        assert b is not None
        close(f"gradient of {name}", a, b)
    ours.float()
    plain.float()


def check_captions(name: str, result: decoding.Decoding, words: list[list[int]], logp: Tensor) -> str:
    mine = [[w for w in row if w != PAD] for row in result.tokens.tolist()]
    if mine != words:
        raise SystemExit(f"{name}: {sum(a != b for a, b in zip(mine, words, strict=True))} captions differ")
    close(name, result.logp.sum(1), logp)
    lengths = [len(row) for row in mine]
    return f"{name}: captions of {min(lengths)} to {max(lengths)} tokens, {statistics.mean(lengths):.1f} on average"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds of each case (default 5)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="torch threads")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers here")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    generator = torch.Generator().manual_seed(1)
    ours = captioner()
    plain = Reference(ours)
    seen = regions(BATCH, generator)
    alone = (seen, torch.arange(BATCH), *captions(BATCH, generator))
    few = seen[: BATCH // 4]
    grouped = (few, torch.arange(len(few)).repeat_interleave(5), *captions(5 * len(few), generator))

    for batch in (alone, grouped):
        check_training(ours, plain, batch)
    ours.eval()
    plain.eval()
    words, logp = plain.greedy(seen, LENGTH)
    expected = [[w for w in row if w != PAD] for row in words.tolist()]
    print(check_captions("greedy", decoding.greedy(ours, ours.encode(seen), LENGTH), expected, logp.sum(1)))
    for width in (3, 5):
        found, totals = plain.beam(seen, LENGTH, width)
        result = decoding.beam(ours, ours.encode(seen), LENGTH, width=width)
        print(check_captions(f"beam {width}", result, found, torch.tensor(totals)))

    def step(model: UpDown | Reference, batch: tuple[Regions, Tensor, Tensor, Tensor]) -> None:
        model.train().zero_grad()
        (cross_entropy(model, *batch) if isinstance(model, UpDown) else model(*batch)).backward()

    rows = []

    def compared(name: str, theirs: Callable[[], object], mine: Callable[[], object]) -> None:
        rows.append(row(name, compare(args.rounds, theirs, mine), args.threads))
        print(told(rows[-1]), flush=True)

    for name, batch in (("64 x 1", alone), ("16 x 5", grouped)):
        compared(f"cross-entropy step, {name} captions", lambda b=batch: step(plain, b), lambda b=batch: step(ours, b))
    ours.eval()
    plain.eval()
    with torch.no_grad():
        compared(
            "greedy captions, 64 images",
            lambda: plain.greedy(seen, LENGTH),
            lambda: decoding.greedy(ours, ours.encode(seen), LENGTH),
        )
        for width in (3, 5):
            compared(
                f"beam {width}, 64 images",
                lambda w=width: plain.beam(seen, LENGTH, w),
                lambda w=width: decoding.beam(ours, ours.encode(seen), LENGTH, width=w),
            )
    if args.json:
        write(args.json, rows)


if __name__ == "__main__":
    main()
