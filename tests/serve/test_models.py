"""The models of a server: on onnxruntime, without torch, they respond as with torch."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from server_process import PHOTOS

import groundling
from groundling.images import open_image
from groundling.serve.models import Extracted, Models, Onnx, Torch
from groundling.serve.requests import (
    AuditRequest,
    CaptionRequest,
    DecodingOptions,
    GroundRequest,
    InferenceRequest,
    RegionsRequest,
)
from groundling.serve.responses import ImageRegions, respond

pytest.importorskip("onnxruntime")
pytest.importorskip("cv2")

REQUESTS: Sequence[InferenceRequest] = (
    CaptionRequest(),
    CaptionRequest(DecodingOptions(False, (("repeat_nouns", True), ("min_length", 12)))),
    CaptionRequest(DecodingOptions(True, (("seed", 7), ("temperature", 0.5)))),
    GroundRequest("a brown cat beside a woman in an orange suit"),
    AuditRequest("a spaniel and a brown cat with a red cup on a table"),
    RegionsRequest(words=3),
)


def close(one: Any, other: Any) -> bool:
    """Equal, numbers to rounding: boxes have one digit after the point, probabilities four. Numbers below 0 are
    log-probabilities of captions, whose unlikely words onnxruntime rounds."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(close(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(close(a, b) for a, b in zip(one, other, strict=True))
    if not isinstance(one, float):
        return bool(one == other)
    return bool(one == pytest.approx(other, abs=0.11 if other > 2 else 2e-3, rel=5e-4 if other < 0 else 0))


@pytest.fixture(scope="module")
def both() -> tuple[Models, Models]:
    ours, theirs = (Models(groundling.load(runtime=runtime)) for runtime in ("onnx", "torch"))
    assert isinstance(ours.runtime, Onnx) and isinstance(theirs.runtime, Torch)
    return ours, theirs


def extracted(models: Models, what: str) -> Extracted:
    pictures = [open_image(PHOTOS / f"{name}.jpg") for name in ("cat", "astronaut")]
    if what == "box":
        return models.regions_at(pictures, (20, 30, 240, 200), 1)
    return models.regions(pictures, clip=what == "clip")


@pytest.mark.parametrize("what", ["photo", "clip"])
def test_responses_are_those_of_torch(both: tuple[Models, Models], what: str) -> None:
    images = [ImageRegions("id", extracted(models, what), 2 if what == "clip" else 0) for models in both]
    for request in REQUESTS:
        ours, theirs = (respond(models, image, request) for models, image in zip(both, images, strict=True))
        assert close(ours, theirs), request
        if isinstance(request, AuditRequest) and what == "photo":
            assert any("colour" in phrase for phrase in ours["phrases"])


def test_a_box_that_is_drawn_has_the_words_and_labels_of_torch(both: tuple[Models, Models]) -> None:
    request = RegionsRequest(words=4, box=(20, 30, 240, 200), frame=1)
    ours, theirs = (respond(models, ImageRegions("id", extracted(models, "box"), 2), request) for models in both)
    assert close(ours, theirs) and len(ours["regions"]) == 1
    assert ours["regions"][0]["frame"] == 1 and ours["regions"][0]["labels"] and ours["regions"][0]["words"]


def test_torch_is_never_imported() -> None:
    """Not by sentences either, though spaCy would; in a process of its own."""
    code = (
        "import sys; sys.path[:0] = sys.argv[1:]\nimport test_models as t\nfrom groundling.serve.models import Models\n"
    )
    code += "models = Models.load('', ''); models.warm()\n"
    code += "images = [t.ImageRegions('id', t.extracted(models, what), what == 'clip') for what in ('photo', 'clip')]\n"
    code += "[t.respond(models, image, request) for image in images for request in t.REQUESTS]\n"
    code += "t.extracted(models, 'box'); sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, *sys.path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
