"""How much faster is the matcher than its plain formulation? Same numbers, interleaved rounds.

    python bench/matching.py              # 36 regions of 1,024, captions of natural length
    python bench/matching.py --rounds 2   # quicker, noisier
    python bench/matching.py --large      # also 1,000 images x 5,000 captions: eleven minutes

The plain formulation is the published one: a loop over captions, each repeated for all images, its attended vectors
made, and the loss of the hardest rivals left to autograd. Every case is first checked (scores agree within 1e-5, loss
and gradients, in double precision, too), then timed in turns, so that a busy machine slows both alike. Printed are
medians and the median of the rounds' ratios, and how much memory each took beyond what it was given (Linux).

Of the large case both run once on all captions; the memory of the plain loop is that of a sample.
"""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from results import Row, Spent, compare, row, timed, told, write
from torch import Tensor

from groundling.models.cross_attention import score_all, score_pairs
from groundling.objectives.triplet import hardest, triplet

REGIONS, HIDDEN, TAU, MARGIN = 36, 1024, 9.0, 0.2
LENGTHS = (4, 11, 29, 65, 85, 98, 110, 113, 103, 93, 77, 62, 44, 107)  # thousandths of captions of 3, 4, ... 16 words
SAMPLE = 40  # captions of the large case with which the memory of the plain loop is measured


def made(images: int, captions: int, seed: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """v, e, counts. Words are near some region, as trained ones are."""
    g = torch.Generator().manual_seed(seed)
    v = F.normalize(torch.randn(images, REGIONS, HIDDEN, generator=g), dim=-1)
    lengths = 3 + torch.tensor(LENGTHS, dtype=torch.float).multinomial(captions, replacement=True, generator=g)
    counts = torch.arange(16) < lengths[:, None]
    near = torch.randint(REGIONS, (captions, 16), generator=g)
    e = v[torch.arange(captions) % images][torch.arange(captions)[:, None], near]
    e = F.normalize(e + 0.2 * torch.randn(captions, 16, HIDDEN, generator=g), dim=-1)
    return v, e * counts[..., None], counts


def plain_scores(v: Tensor, e: Tensor, counts: Tensor) -> Tensor:
    """(B, N), one caption after another."""
    columns = []
    for words, counted in zip(e, counts, strict=True):
        embedded = words[counted].repeat(len(v), 1, 1)  # (B, n, H)
        s = torch.bmm(v, embedded.transpose(1, 2)).relu()  # (B, R, n)
        s = s / s.norm(dim=2, keepdim=True).clamp(min=1e-12)
        alpha = (TAU * s.transpose(1, 2)).softmax(-1)  # (B, n, R)
        attended = torch.bmm(v.transpose(1, 2), alpha.transpose(1, 2).contiguous()).transpose(1, 2)  # (B, n, H)
        cosine = (embedded * attended).sum(2) / (embedded.norm(dim=2) * attended.norm(dim=2)).clamp(min=1e-8)
        columns.append(cosine.mean(1, keepdim=True))
    return torch.cat(columns, 1)


def plain_loss(v: Tensor, e: Tensor, counts: Tensor) -> Tensor:
    scores = plain_scores(v, e, counts)
    own = scores.diagonal()
    self_ = torch.eye(len(scores), dtype=torch.bool)
    by_image = (MARGIN + scores - own[:, None]).clamp(min=0).masked_fill(self_, 0).max(1).values
    by_caption = (MARGIN + scores - own[None]).clamp(min=0).masked_fill(self_, 0).max(0).values
    return (by_image + by_caption).mean()


def our_loss(v: Tensor, e: Tensor, counts: Tensor) -> Tensor:
    n = torch.arange(len(e))
    caption, image = hardest(score_all(v.detach(), e.detach(), counts, TAU), n)
    pairs = torch.cat([n, n, image]), torch.cat([n, caption, n])
    own, by_image, by_caption = score_pairs(v, e, counts, TAU, *pairs).chunk(3)
    return triplet(own, by_image, by_caption, counts.any(1), MARGIN)


def step(loss: Callable[[Tensor, Tensor, Tensor], Tensor], v: Tensor, e: Tensor, counts: Tensor) -> tuple[Tensor, ...]:
    """Loss and gradients. Words are brought to unit length in it: their gradient along themselves means nothing."""
    v, e = v.detach().requires_grad_(), e.detach().requires_grad_()
    found = loss(v, F.normalize(e, dim=-1), counts)
    found.backward()
    assert v.grad is not None and e.grad is not None
    return found.detach(), v.grad, e.grad


def close(name: str, ours: Tensor, plain: Tensor, most: float = 1e-5) -> None:
    difference = float((ours - plain).abs().max() / plain.abs().max())
    print(f"{name}: differ by {difference:.1e} at most")
    if not difference < most:
        raise SystemExit(f"{name}: the two formulations differ by {difference:.1e}")


def memory(run: Callable[[], object]) -> float:
    """MB at the peak of `run`, beyond what there was before it; NaN where the system does not tell."""
    try:
        ctypes.CDLL(None).malloc_trim(0)  # give back what earlier runs left
        Path("/proc/self/clear_refs").write_text("5")  # forget the highest mark
    except (OSError, AttributeError):
        return float("nan")
    before = resident("VmRSS")
    run()
    return resident("VmHWM") - before


def resident(mark: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(mark)).split()[1]) / 1000


def measured(name: str, pairs: list[tuple[Spent, Spent]], threads: int, used: tuple[float, float]) -> Row:
    one = row(name, pairs, threads) | {"theirs_mb": round(used[0]), "ours_mb": round(used[1])}
    print(f"{told(one)}; {used[0]:.0f} and {used[1]:.0f} MB", flush=True)
    return one


def compared(name: str, args: argparse.Namespace, plain: Callable[[], object], ours: Callable[[], object]) -> Row:
    return measured(name, compare(args.rounds, plain, ours), args.threads, (memory(plain), memory(ours)))


def large(threads: int) -> Row:
    """In single precision each formulation rounds in its own way, and a score jumps where the greatest similarity of a
    region to the words crosses 0: s / |s| is 0 below and 1 above. Pairs that differ by more than rounding are few, and
    are compared once more in double precision."""
    v, e, counts = made(1000, 5000)
    few = v[:SAMPLE].double(), e[:SAMPLE].double(), counts[:SAMPLE]
    close("some scores, in double precision", score_all(*few, TAU), plain_scores(*few), 1e-6)
    found: list[Tensor] = []
    pair = (
        timed(lambda: found.append(plain_scores(v, e, counts))),
        timed(lambda: found.append(score_all(v, e, counts, TAU))),
    )
    apart = ((found[1] - found[0]).abs() > 1e-4 * found[0].abs().max()).nonzero()
    print(f"1,000 x 5,000 scores: {len(apart)} of {found[0].numel()} differ by more than 1e-4 of the largest")
    if len(apart) > found[0].numel() / 1e5:
        raise SystemExit("that is more than rounding")
    for i, j in apart.tolist():
        one = v[i : i + 1].double(), e[j : j + 1].double(), counts[j : j + 1]
        close(f"image {i}, caption {j}, in double precision", score_all(*one, TAU), plain_scores(*one), 1e-6)
    some = e[:SAMPLE], counts[:SAMPLE]
    used = memory(lambda: plain_scores(v, *some)), memory(lambda: score_all(v, e, counts, TAU))
    return measured("SCAN scores, 1,000 images x 5,000 captions, once", [pair], threads, used)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds of each case (default 5)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="torch threads")
    parser.add_argument("--large", action="store_true", help="also 1,000 images x 5,000 captions")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers here")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    batch = made(128, 128)
    close("128 x 128 scores", score_all(*batch, TAU), plain_scores(*batch))
    check_gradients(batch)
    with torch.no_grad():
        rows = [compared("SCAN scores, 128 x 128", args, lambda: plain_scores(*batch), lambda: score_all(*batch, TAU))]
    steps = (lambda: step(plain_loss, *batch)), (lambda: step(our_loss, *batch))
    rows.append(compared("hardest-negative loss, forward and backward, 128 x 128", args, *steps))
    if args.large:
        with torch.no_grad():
            rows.append(large(args.threads))
    if args.json:
        write(args.json, rows)


def check_gradients(batch: tuple[Tensor, Tensor, Tensor]) -> None:
    """In double precision, where rounding is far below the tolerance.

    In single precision the two round differently; the gradient of a region is a difference of nearly equal terms (what
    pulls it to its own words and what pushes it from a rival's), so the rounding of a machine's matrix products can be
    more than 1e-5 of it.
    """
    v, e, counts = batch
    double = v.double(), e.double(), counts
    for name, a, b in zip(
        ("loss", "gradient of regions", "gradient of words"),
        step(our_loss, *double),
        step(plain_loss, *double),
        strict=True,
    ):
        close(name, a, b)


if __name__ == "__main__":
    main()
