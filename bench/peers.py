"""A photo captioned and grounded by us and by the best-known models of the field, in one run, in turns.

    pip install 'groundling[transformers]'
    python bench/peers.py [--rounds 5] [--threads 2] [--json peers.json]

BLIP-base captions and GroundingDINO-tiny grounds; both are built from the configurations that transformers publishes,
with random weights, on which speed does not depend. Each sees the photo at the size that it was published with: 384 x
384, and 800 pixels on the short side. BLIP says as many tokens as a caption has. Ours is one `caption`, from the
decoded photo to the boxes of its nouns, beside both; and, beside GroundingDINO, a sentence grounded as the server
grounds it, which is the same task. Decoding the file is not part of any. Ours is timed three times a round, and the
middle counts, as its first run after theirs finds cold caches.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from results import Spent, row, timed, told, write

import groundling
from groundling.serve.models import Models

TOKENS = 12  # of a caption, its end included
SENTENCE = "a black cat lies on a wooden table beside a window ."
QUERY = 14  # tokens of this sentence with what begins and ends it
OURS = ("caption", "ground")
SHORT, LONG = 800, 1333  # pixels of the sides that GroundingDINO sees


def caption(photo: Image.Image) -> Callable[[], object]:
    captioner = groundling.load()
    return lambda: captioner.caption(photo)


def ground(photo: Image.Image) -> Callable[[], object]:
    models = Models.load("", "")
    return lambda: models.grounder.ground_regions(models.runtime.regions(photo).regions, SENTENCE)


def blip(photo: Image.Image) -> Callable[[], object]:
    from transformers import BlipConfig, BlipForConditionalGeneration

    model = BlipForConditionalGeneration(BlipConfig()).eval()
    pixels = _pixels(photo.resize((384, 384)))
    return lambda: model.generate(pixel_values=pixels, min_new_tokens=TOKENS, max_new_tokens=TOKENS)


def grounding_dino(photo: Image.Image) -> Callable[[], object]:
    from transformers import GroundingDinoConfig, GroundingDinoForObjectDetection

    model = GroundingDinoForObjectDetection(GroundingDinoConfig()).eval()  # its backbone is the tiny Swin
    scale = min(SHORT / min(photo.size), LONG / max(photo.size))
    pixels = _pixels(photo.resize((round(photo.width * scale), round(photo.height * scale))))
    ids = torch.randint(2000, 20_000, (1, QUERY))
    ids[0, 0], ids[0, -2], ids[0, -1] = 101, 1012, 102  # [CLS], the dot that ends a phrase, [SEP]
    mask = torch.ones_like(ids)
    return lambda: model(
        pixel_values=pixels,
        pixel_mask=torch.ones(1, *pixels.shape[-2:], dtype=torch.long),
        input_ids=ids,
        attention_mask=mask,
        token_type_ids=torch.zeros_like(ids),
    )


def _pixels(photo: Image.Image) -> torch.Tensor:
    return torch.from_numpy(np.array(photo)).permute(2, 0, 1)[None].float() / 255


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="(default 5)")
    parser.add_argument("--threads", type=int, default=2, help="of torch (default 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers here")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    photo = Image.open(Path(groundling.__file__).parent / "serve" / "photos" / "cat.jpg").convert("RGB")
    systems = {make.__name__: make(photo) for make in (caption, ground, blip, grounding_dino)}
    spent: dict[str, list[Spent]] = {name: [] for name in systems}
    with torch.inference_mode():
        for number in range(args.rounds + 1):  # the first warms up
            for name, run in systems.items():
                each = sorted(timed(run) for _ in range(3 if name in OURS else 1))
                spent[name] += [each[len(each) // 2]] if number else []
    rows = [
        row(what, list(zip(spent[theirs], spent[ours], strict=True)), args.threads)
        for what, theirs, ours in (
            ("a photo: blip", "blip", "caption"),
            ("a photo: grounding_dino", "grounding_dino", "caption"),
            ("a sentence: grounding_dino", "grounding_dino", "ground"),
        )
    ]
    for one in rows:
        print(told(one))
    if args.json:
        write(args.json, rows)


if __name__ == "__main__":
    main()
