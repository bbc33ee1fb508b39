"""`groundling export`: the networks of a captioner and its grounder in a format that other programs run."""

from __future__ import annotations

import argparse
import json
from typing import Any

DESCRIPTION = """\
Write the networks as ONNX files, for onnxruntime in any language, on phones and in browsers.

The folder gets six graphs and about.json, which holds both vocabularies, the words that get a box, the settings of
decoding, and the inputs and outputs of each graph:

  network      pixels of a photo -> a feature map, and the scores of words that the image vector has
  projection   feature maps, and how much each of their cells counts in each box -> appearance features of regions
  encoder      regions and image vectors -> encoded regions, to which the captioner attends
  step         the previous word and the state -> log-probabilities of the next word, attention, the new state
  regions      features of regions -> unit vectors of the grounder
  phrases      words of phrases -> unit vectors of the grounder; their product with those of regions is the similarity

Boxes are not among them: the detector is the published TensorFlow graph in regions/sources/ssd_mobilenet_v3 of the
package, which OpenCV reads. `groundling caption` needs no exported files: where onnxruntime is installed it makes the
same graphs in memory."""

EPILOG = """\
examples:
  groundling export onnx --out graphs
  groundling export onnx --model my/adapted --out graphs"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("format", choices=["onnx"], help="the format")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="where to write")
    parser.add_argument("--model", default="", metavar="RUN", help="folder of a captioner (default: the package's)")
    parser.add_argument("--grounder", default="", metavar="RUN", help="folder of its grounder")


def run(args: argparse.Namespace) -> None:
    from groundling.commands.outputs import new_folder
    from groundling.files import saved
    from groundling.inference.captioner import folders
    from groundling.inference.engine import read_folders
    from groundling.inference.networks import graphs
    from groundling.regions.sources._photos_onnx import photos_graphs

    out = new_folder(args.out)
    captioner, grounder = read_folders(*folders(args.model, args.grounder))
    files = photos_graphs() | graphs(captioner, grounder)
    for name, content in files.items():
        with saved(out / f"{name}.onnx") as file:
            file.write(content)
        print(f"{out / name}.onnx  {len(content):,} bytes")
    with saved(out / "about.json") as file:
        file.write(json.dumps(_about(captioner, grounder, files), ensure_ascii=False, indent=1).encode())


def _about(captioner: Any, grounder: Any, files: dict[str, bytes]) -> dict[str, Any]:
    """What a program needs beside the graphs."""
    from groundling import __version__
    from groundling.regions.graphs import Session
    from groundling.regions.sources._photos_files import SEARCH_SIDE, WORKING_SIDE

    fields = captioner.about["fields"]
    about = {
        "groundling": __version__,
        "captioner": {
            "weights": captioner.digest,
            "words": captioner.vocab.words,
            "groundable": dict(captioner.groundable.class_of),
            "longest": fields["length"] + 1,
            "regions": fields["regions_per_image"],
        },
        "photos": {"long_side": WORKING_SIDE, "search_side": SEARCH_SIDE, "pixels": "(x - 127) / 128, RGB"},
        "graphs": {name: Session(content).signature for name, content in files.items()},
    }
    if grounder is not None:
        about["grounder"] = {
            "weights": grounder.digest,
            "words": grounder.vocab.words,
            "nouns": [word for word, noun in zip(grounder.vocab.words, grounder.vocab.nouns, strict=True) if noun],
            "temperature": grounder.about["fields"]["softness"],
            "regions": grounder.about["fields"]["regions_per_image"],
        }
    return about
