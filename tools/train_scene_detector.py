"""Train the network that says what a region of a drawn scene is, and write its weights.

    python tools/train_scene_detector.py groundling/scenes/scene_head.safetensors

It takes some minutes of one core. The scenes have seeds of their own, so that nobody is tested on what it was trained
on unless he draws scenes of seed 10000 or 10001. Prints how well it tells classes apart on the latter, and the SHA-256
that goes into `groundling/scenes/detector.py`.

What a region is: the thing with the greatest IoU where that is above 1/2. Else, where it is inside a thing, it is a
part of it, and half of it is background: a wheel looks like a car, but less so than the car. The rest is background,
and so is the whole image.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import safetensors.torch
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from groundling.boxes import area, intersection, iou
from groundling.progress import track
from groundling.scenes.detector import HIDDEN as OUTPUT
from groundling.scenes.detector import NAMES
from groundling.scenes.regions import describe
from groundling.scenes.write import DrawnScene, scene

SEED, SCENES = 10_000, 4000
TEST_SEED, TEST_SCENES = 10_001, 300
COUNT, SAME = 36, 0.6  # as users have them
INSIDE = 0.8  # of a region's area: from there on it is inside a thing
PART = 0.5  # how much of a part is the thing
HIDDEN, DROPOUT = 192, 0.2
EPOCHS, BATCH, RATE, DECAY = 15, 256, 3e-3, 1e-2
BACKGROUND = len(NAMES)


def main(out: Path) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    x, y = rows(SEED, SCENES)
    mean, deviation = x.mean(0), x.std(0) + 1e-3
    net = nn.Sequential(
        nn.Linear(x.shape[1], HIDDEN),
        nn.ReLU(),
        nn.Dropout(DROPOUT),
        nn.Linear(HIDDEN, OUTPUT),
        nn.ReLU(),
        nn.Dropout(DROPOUT),
        nn.Linear(OUTPUT, len(NAMES) + 1),
    )
    fit(net, (x - mean) / deviation, y)
    with torch.inference_mode():
        z = net[:5]((x - mean) / deviation)
    test, truth = rows(TEST_SEED, TEST_SCENES)
    report(net, (test - mean) / deviation, truth)
    save(out, net, mean=mean, deviation=deviation, center=z.mean(0), spread=z.std(0) + 1e-3)


def rows(seed: int, count: int) -> tuple[Tensor, Tensor]:
    """Regions of all scenes (R, D), and what each is (R, C + 1)."""
    made = [_rows(scene(seed, number)) for number in track(range(count), "scenes", count)]
    return torch.cat([x for x, _ in made]), torch.cat([y for _, y in made])


def _rows(drawn: DrawnScene) -> tuple[Tensor, Tensor]:
    boxes, x = describe(drawn.picture.image, COUNT, SAME)
    things = [(item.name, box) for item, box in zip(drawn.world.items, drawn.picture.boxes, strict=True)]
    seen = [(NAMES.index(name), box) for name, box in things if box and name != "leash"]
    kinds, places = torch.tensor([kind for kind, _ in seen]), torch.tensor([box for _, box in seen]).float()
    return torch.from_numpy(x).float(), truth(torch.from_numpy(boxes).float(), places, kinds)


def truth(boxes: Tensor, places: Tensor, kinds: Tensor) -> Tensor:
    """(R, C + 1), of regions (R, 4), where the things are (P, 4) and which class they have (P,)."""
    overlap, nearest = iou(boxes, places).max(1)
    within = intersection(boxes, places) > INSIDE * area(boxes)[:, None]
    smallest = torch.where(within, area(places), torch.inf).argmin(1)
    whole = overlap > 0.5
    part = within.any(1) & ~whole
    whole[0] = part[0] = False
    each = F.one_hot(kinds, BACKGROUND + 1).float()
    nothing = F.one_hot(torch.tensor(BACKGROUND), BACKGROUND + 1).float()
    y = nothing.repeat(len(boxes), 1)
    y[whole] = each[nearest[whole]]
    y[part] = PART * each[smallest[part]] + (1 - PART) * nothing
    return y


def fit(net: nn.Module, x: Tensor, y: Tensor) -> None:
    steps = len(x) // BATCH
    optimizer = torch.optim.AdamW(net.parameters(), RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=EPOCHS * steps)
    for _ in track(range(EPOCHS), "epochs", EPOCHS):
        for some in torch.randperm(len(x))[: steps * BATCH].view(steps, BATCH):
            loss = F.cross_entropy(net(x[some]), y[some])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    net.eval()


def report(net: nn.Module, x: Tensor, y: Tensor) -> None:
    with torch.inference_mode():
        p = net(x).softmax(1)
    kind, best = y[:, :BACKGROUND], p[:, :BACKGROUND].argmax(1)
    for name, those in (("things", kind.amax(1) == 1), ("parts", (kind.amax(1) > 0) & (kind.amax(1) < 1))):
        right = (best == kind.argmax(1))[those].float().mean()
        sys.stdout.write(f"{name}: {right:.4f} of {int(those.sum())} named as they are\n")
    rest = kind.amax(1) == 0
    right = (p.argmax(1) == BACKGROUND)[rest].float().mean()
    sys.stdout.write(f"background: {right:.4f} of {int(rest.sum())}\n")


def save(out: Path, net: nn.Sequential, **scales: Tensor) -> None:
    linear = [layer for layer in net if isinstance(layer, nn.Linear)]
    tensors = scales | {f"w{i}": layer.weight for i, layer in enumerate(linear, 1)}
    tensors |= {f"b{i}": layer.bias for i, layer in enumerate(linear, 1)}
    halves = {name: value.detach().half().contiguous() for name, value in tensors.items()}
    content = safetensors.torch.save(halves)
    out.write_bytes(content)
    sys.stdout.write(f"{out}: {len(content)} bytes, SHA-256 {hashlib.sha256(content).hexdigest()}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
