"""What do K branches of attention cost? A training step of distributed attention against one of Up-Down.

    python bench/branches.py                # 8 images, 5 captions each, 50 regions, hidden 512, vocabulary 4,000
    python bench/branches.py --hidden 128   # small models

CPU time on one thread, the least of the rounds, which are interleaved. K separate captioners would cost K.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import Tensor

from groundling.models.layers import Additive, Plain
from groundling.models.multi_branch import MultiBranch
from groundling.models.updown import UpDown
from groundling.tensors import Regions
from groundling.types import BOS, EOS, PAD

IMAGES, CAPTIONS, REGIONS, FEATURE, VOCAB, LENGTH = 8, 5, 50, 256, 4000, 14


def step(model: UpDown | MultiBranch, seen: Regions, tokens: Tensor) -> float:
    """CPU seconds of one step, forward and backward."""
    start = time.process_time()
    encoded = model.encode(seen)[torch.arange(IMAGES).repeat_interleave(CAPTIONS)]
    result = model(encoded, tokens[:, :-1], tokens[:, 1:])
    outputs = [branch.logp for branch in result.branches] or [result.logp]
    model.zero_grad()
    (-torch.stack(outputs).mean()).backward()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    boxes = torch.rand(REGIONS, 4).cumsum(1)
    seen = Regions.stack([Regions.of(torch.randn(REGIONS, FEATURE), boxes, (4, 4)) for _ in range(IMAGES)])
    tokens = torch.randint(4, VOCAB, (IMAGES * CAPTIONS, LENGTH + 1))
    tokens[:, 0] = BOS
    for row in tokens:
        end = int(torch.randint(5, LENGTH + 1, ()))
        row[end], row[end + 1 :] = EOS, PAD
    h = args.hidden
    models: dict[str, UpDown | MultiBranch] = {"Up-Down": UpDown(VOCAB, Plain(FEATURE, h), Additive(h, h), h, h)}
    for k in (1, 2, 3, 4, 5):
        models[f"K = {k}"] = MultiBranch(VOCAB, Plain(FEATURE, h), [Additive(h, h) for _ in range(k)], h, h)
    times: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(args.rounds):
        for name, model in models.items():
            times[name].append(step(model, seen, tokens))
    plain = min(times["Up-Down"])
    for name, seconds in times.items():
        print(f"{name:8}  {1000 * min(seconds):7.0f} ms   {min(seconds) / plain:.2f} x")


if __name__ == "__main__":
    main()
