"""`groundling ground clip.mp4`: the phrases of a sentence in every frame of a video."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from groundling.inference.phrases import GroundedPhrase
    from groundling.types import GroundedCaption


def run(args: argparse.Namespace) -> None:
    from groundling import inference
    from groundling.commands.ground import save_picture
    from groundling.commands.outputs import new_file, refuse_input
    from groundling.errors import GroundlingError
    from groundling.report.picture import draw_clip
    from groundling.video import frames

    if args.heatmap or args.coco_boxes:
        raise GroundlingError("--heatmap and --coco-boxes are of one picture: name a frame of the video, not the video")
    png = new_file(args.png) if args.png else None
    if png:
        refuse_input([png], [args.image])
    model = inference.load_grounder(args.model, args.device, joints=args.joints)
    shots = list(frames(args.image))
    grounded = [list(model.ground(shot, args.sentence, args.phrase)) for shot in shots]
    if args.json:
        each = [{"frame": i, "phrases": [phrase.to_dict() for phrase in phrases]} for i, phrases in enumerate(grounded)]
        print(json.dumps({"video": args.image, "sentence": args.sentence, "frames": each}))
    else:
        _print(grounded)
    if png:
        save_picture(draw_clip(shots, _caption(grounded, Path(args.image), shots[0].size)), png)


def _print(grounded: Sequence[Sequence[GroundedPhrase]]) -> None:
    """A line for each phrase and frame."""
    from rich.table import Table

    from groundling.commands.score_table import show

    table = Table("phrase", box=None, pad_edge=False)
    for name in ("frame", "box (x1 y1 x2 y2)", "score", "evidence"):
        table.add_column(name, justify="right")
    for of_frames in zip(*grounded, strict=True):
        for frame, phrase in enumerate(of_frames):
            box = " ".join(f"{x:.0f}" for x in phrase.box) if phrase.found else phrase.result
            evidence = "" if phrase.evidence is None else f"{phrase.evidence:.2f}"
            table.add_row("" if frame else phrase.phrase, str(frame), box, f"{phrase.score:.2f}", evidence)
    show(table)


def _caption(grounded: Sequence[Sequence[GroundedPhrase]], path: Path, size: tuple[int, int]) -> GroundedCaption:
    """The phrases as one caption, linked in the frames in which they were grounded."""
    from groundling.inference.phrases import as_caption

    # each phrase is a token, whether or not it is there
    sure = [replace(phrase, evidence=None, unknown=()) for phrase in grounded[0]]
    caption = as_caption(sure, path.stem, str(path), size)
    links = [
        replace(caption.links[i], box=phrase.box, score=phrase.score, frame=frame, evidence=phrase.evidence)
        for frame, phrases in enumerate(grounded)
        for i, phrase in enumerate(phrases)
        if phrase.found
    ]
    return replace(caption, links=tuple(links))
