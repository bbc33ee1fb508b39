"""ActivityNet-Entities (Zhou et al., CVPR 2019): segments of videos, one sentence each, boxes in ten frames of it.

On disk: `anet_entities_cleaned_class_thresh50_*.json` (words with classes and boxes), `split_ids_anet_entities.json`,
and, where it is there, `anet_entities_*.json` (noun phrases), of which only the size of the frames is taken: 720 pixels
wide, boxes refer to it. Videos, if any, are in `videos/VIDEO.*`; where there are none, the frames of each segment may
be pictures in `frames/VIDEO_segment_NN/`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from groundling.data import evaluator_files
from groundling.data.checks import MAX_SIDE, Problems, expect, get, head, read_json, within
from groundling.types import Example
from groundling.video import SUFFIXES

FORMAT = "ActivityNet-Entities"
LOOKS_FOR = "anet_entities_cleaned_class_*.json (segments with process_clss, frame_ind) and split_ids_*.json beside it"


def claims(path: Path) -> bool:
    files = _files(path)
    return bool(files) and '"process_idx"' in (start := head(files[0])) and '"segments"' in start


def read(path: Path, problems: Problems) -> list[Example]:
    files = _files(path)
    root = files[0].parent
    split_of: dict[str, str] = {}
    for splits in sorted(root.glob("split_ids_*.json")):
        split_of |= evaluator_files.read_splits(read_json(splits), str(splits))
    videos = {file.stem: str(file) for file in root.glob("videos/*") if file.suffix.lower() in SUFFIXES}
    segments = {folder.name: str(folder) for folder in root.glob("frames/*")}
    sizes = _sizes(root)
    examples = []
    for file in files:
        for example in evaluator_files.video_examples(read_json(file), split_of, str(file), problems):
            video = example.id.rpartition("_segment_")[0]
            media = videos.get(video) or segments.get(example.id, "")
            examples.append(replace(example, media=media, size=sizes.get(video, (0, 0))))
    return examples


def annotation_files(path: Path) -> list[Path]:
    files = _files(path)
    root = files[0].parent
    return [*files, *root.glob("anet_entities_*.json"), *root.glob("split_ids_*.json")]


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path] if path.suffix == ".json" else []
    return sorted(file for file in path.glob("anet_entities_cleaned_class*.json") if "skeleton" not in file.name)


def _sizes(root: Path) -> dict[str, tuple[int, int]]:
    """Width and height of the frames of each video, from the files of noun phrases."""
    sizes = {}
    for file in sorted(root.glob("anet_entities_*.json")):
        if "cleaned" not in file.name:
            for video, row in get(read_json(file), "database", dict, str(file)).items():
                where = f"{file}: {video}"
                sides = {side: get(row, side, float, where) for side in ("rwidth", "rheight")}
                width, height = (within(x, MAX_SIDE, f"{where}: {side}") for side, x in sides.items())
                sizes[expect(video, str, where)] = width, height
    return sizes
