"""`groundling ground clip.mp4`: the phrases of a sentence in every frame of a video."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from groundling.inference.grounder import GroundedPhrase
    from groundling.types import GroundedCaption


def run(args: argparse.Namespace) -> None:
    from groundling import inference
    from groundling.commands.ground import save_picture
    from groundling.commands.outputs import new_file
    from groundling.errors import GroundlingError
    from groundling.report.picture import draw_clip
    from groundling.video import frames

    if args.heatmap or args.coco_boxes:
        raise GroundlingError("--heatmap and --coco-boxes are of one picture: name a frame of the video, not the video")
    png = new_file(args.png) if args.png else None
    model = inference.load_grounder(args.model, args.device)
    shots = list(frames(args.image))
    found = [list(model.ground(shot, args.sentence, args.phrase)) for shot in shots]
    if args.json:
        each = [{"frame": i, "phrases": [place.to_dict() for place in places]} for i, places in enumerate(found)]
        print(json.dumps({"video": args.image, "sentence": args.sentence, "frames": each}))
    else:
        _print(found)
    if png:
        save_picture(draw_clip(shots, _caption(found, Path(args.image), shots[0].size)), png)


def _print(found: Sequence[Sequence[GroundedPhrase]]) -> None:
    """A line for each phrase and frame."""
    from rich.table import Table

    from groundling.commands.score_table import show

    table = Table("phrase", box=None, pad_edge=False)
    for name in ("frame", "box (x1 y1 x2 y2)", "score", "evidence"):
        table.add_column(name, justify="right")
    for phrase in zip(*found, strict=True):
        for frame, place in enumerate(phrase):
            box = " ".join(f"{x:.0f}" for x in place.box) if place.found else place.result
            evidence = "" if place.evidence is None else f"{place.evidence:.2f}"
            table.add_row("" if frame else place.phrase, str(frame), box, f"{place.score:.2f}", evidence)
    show(table)


def _caption(found: Sequence[Sequence[GroundedPhrase]], path: Path, size: tuple[int, int]) -> GroundedCaption:
    """The phrases as one caption, linked in the frames in which they were found."""
    from groundling.inference.grounder import as_caption

    sure = [replace(place, evidence=None, unknown=()) for place in found[0]]  # each a token, whether or not it is there
    whole = as_caption(sure, path.stem, str(path), size)
    links = [
        replace(whole.links[i], box=place.box, score=place.score, frame=frame, evidence=place.evidence)
        for frame, places in enumerate(found)
        for i, place in enumerate(places)
        if place.found
    ]
    return replace(whole, links=tuple(links))
