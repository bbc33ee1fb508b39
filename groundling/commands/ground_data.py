"""`groundling ground --data`: ground the phrases of a data set and score them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groundling.commands import engine_of
from groundling.commands.score_table import ends, print_scores, resampled, show

if TYPE_CHECKING:
    from groundling.data.dataset import Dataset
    from groundling.evaluation.caption_score import CaptionFit
    from groundling.inference import PhraseGrounder
    from groundling.inference.calibration import Calibration
    from groundling.metrics.calibration import ImageNouns
    from groundling.metrics.phrases import Localisation, Query
    from groundling.types import Example

TOGETHER = 32  # images that a worker is given at a time


def run(args: argparse.Namespace) -> None:
    from groundling import inference
    from groundling.data.dataset import load
    from groundling.errors import DataError, GroundlingError
    from groundling.evaluation import caption_score
    from groundling.evaluation.phrases import choice, located, queries
    from groundling.inference.calibration import calibrate, keep_calibration
    from groundling.inference.evidence import CALIBRATION
    from groundling.inference.image_nouns import learn
    from groundling.parallel import ALONE
    from groundling.regions.store import Store

    if not args.regions:
        raise GroundlingError("name the regions of the data set with --regions STORE")
    if args.learn_from and args.learn_from == args.split:
        raise GroundlingError("--learn-from and --split are the same: evidence is fitted on images not learned from")
    model = inference.load_grounder(args.model, args.device, joints=args.joints)
    examples, store = load(args.data, args.split), Store.open(args.regions)
    image_nouns = None
    if args.learn_from:
        image_nouns = learn(
            load(args.data, args.learn_from).examples, store, model.embed, model.vocab.words, quiet=False
        )
    contrast = _contrast(args, model, image_nouns) if args.contrast_from else None
    engine = engine_of(args)
    some = [examples.examples[start : start + TOGETHER] for start in range(0, len(examples), TOGETHER)]
    found = (
        queries(model, examples, store, argmax=args.argmax) if engine == ALONE
        else chain.from_iterable(engine.map(partial(_worker, args), some, lambda some: f"image {some[0].id!r}"))
    )  # fmt: skip
    chosen = choice(model, examples, argmax=args.argmax)
    results = located(found, len(examples), chosen, args.iou, quiet=False) if _boxes(examples) else {}
    if not results and not args.calibrate:
        raise DataError(f"the split {args.split!r} of {args.data} has no boxes of phrases")
    calibration = None
    if args.calibrate:
        of_captions = _captions_of(args.captions, examples)
        calibration = calibrate(
            model, examples, store, captions=of_captions, image_nouns=image_nouns, contrast=contrast
        )
    captions = None
    if calibration:
        model.calibration = calibration.model
        try:
            captions = caption_score.fitted(model, list(examples), store)
        except DataError as error:
            print(f"groundling: the score of captions is not fitted: {error}", file=sys.stderr)
        if captions:
            calibration = replace(calibration, model=replace(calibration.model, captions=captions.form))
        keep_calibration(Path(args.model) / CALIBRATION, calibration.to_bytes())
    _tell(results, calibration, captions, args)


def _contrast(args: argparse.Namespace, model: PhraseGrounder, image_nouns: ImageNouns | None) -> ImageNouns:
    """What tells nouns from others of their class, of the nouns of `image_nouns`, or of those that the model has."""
    from groundling.data.dataset import load
    from groundling.errors import GroundlingError
    from groundling.inference.image_nouns import learn_contrast
    from groundling.regions.fingerprints import require
    from groundling.regions.store import Store

    kept = model.calibration.words.image_nouns if model.calibration and model.calibration.words else None
    beside = image_nouns or kept
    if beside is None:
        raise GroundlingError("--contrast-from stands beside nouns that were learned: add --learn-from SPLIT")
    sets = [(load(data, "train"), Store.open(regions)) for data, regions in args.contrast_from]
    held = _files(load(args.data, args.split, annotated=False))
    for (examples, store), (data, _) in zip(sets, args.contrast_from, strict=True):
        require(store.fingerprint, model.model.fingerprint)
        if held & _files(examples):
            raise GroundlingError(f"the split train of {data} has images that evidence is fitted on: name other ones")
    return learn_contrast([(one.examples, store) for one, store in sets], beside.others, model.embed, quiet=False)


def _files(examples: Dataset) -> set[Path]:
    return {Path(example.media).resolve() for example in examples if example.media}


def _worker(args: argparse.Namespace) -> Callable[[Sequence[Example]], list[list[Query]]]:
    """In a worker: what grounds the phrases of some images, with a grounder that is loaded once."""
    from groundling.evaluation.phrases import queries
    from groundling.inference import load_grounder
    from groundling.regions.store import Store

    model, store = load_grounder(args.model, joints=args.joints), Store.open(args.regions)
    return lambda some: list(queries(model, some, store, argmax=args.argmax))


def _captions_of(files: Sequence[str], examples: Dataset) -> list[tuple[str, str]]:
    """Ids of images and captions of captioners, by files of captions; DataError where none is of these images."""
    from groundling.errors import DataError
    from groundling.formats.folder import Named
    from groundling.formats.rows import Row, read_rows

    ids = Named((example.id, example.media, example.id) for example in examples)
    rows = [row for file in files for row in read_rows(file) if isinstance(row, Row)]
    found = [(id, row.text) for row in rows if (id := ids.find(row.image)) is not None]
    if files and not found:
        raise DataError(f"{', '.join(files)}: no caption of an image of the data set")
    return found


def _boxes(examples: Dataset) -> bool:
    """Did people draw boxes of phrases?"""
    return any(phrase.boxes for example in examples for phrase in example.gold)


def _tell(
    results: dict[str, Localisation],
    calibration: Calibration | None,
    captions: CaptionFit | None,
    args: argparse.Namespace,
) -> None:
    if args.json:
        row: dict[str, Any] = {}
        for truth, one in results.items():
            intervals = resampled(list(one.statistics().values()), args.bootstrap)
            row[truth] = {"scores": one.to_dict(), "by_kind": one.by_kind(), **ends(intervals)}
        row |= {"calibration": calibration.to_json()} if calibration else {}
        row |= (
            {"captions": {"auc": captions.auc, "auc_with_references": captions.auc_with_references}} if captions else {}
        )
        print(json.dumps(row))
        return
    for one in results.values():
        statistics = list(one.statistics().values())
        print_scores([each.score() for each in statistics], resampled(statistics, args.bootstrap))
        print()
    if results:
        _print_kinds(results)
    if calibration:
        _print_calibration(calibration)
    if captions:
        print(
            f"captions: one of a photo above one of another, near photo: {captions.auc:.4f} (area under the curve), "
            f"with references {captions.auc_with_references:.4f}, on {captions.tested_on} captions"
        )


def _print_kinds(results: dict[str, Localisation]) -> None:
    """Accuracy and upper bound of each phrase type, by both conventions."""
    from rich.table import Table

    table = Table("phrase type", box=None, pad_edge=False)
    for name in ("phrases", "any", "union", "bound, any", "bound, union"):
        table.add_column(name, justify="right")
    some, union = results["any"].by_kind(), results["union"].by_kind()
    for kind, row in some.items():
        other = union[kind]
        values = (row["recall@1"], other["recall@1"], row["upper_bound"], other["upper_bound"])
        table.add_row(kind, f"{row['phrases']:.0f}", *(f"{value:.4f}" for value in values))
    show(table)


def _print_calibration(calibration: Calibration) -> None:
    from rich.table import Table

    print(
        f"evidence: area under the curve {calibration.auc:.4f}, expected calibration error {calibration.ece:.4f} "
        f"on {calibration.tested_on} phrases, "
        f"right {calibration.accuracy:.4f}; fitted on {calibration.fitted_on} phrases of other images"
    )
    if calibration.caption_auc is not None:
        print(
            f"nouns of captioners: area under the curve {calibration.caption_auc:.4f} "
            f"on {calibration.caption_nouns} of other images"
        )
    table = Table("evidence", box=None, pad_edge=False)
    for name in ("mean", "true", "phrases"):
        table.add_column(name, justify="right")
    for one in calibration.curve:
        table.add_row(f"{one.low:.1f} to {one.high:.1f}", f"{one.predicted:.3f}", f"{one.true:.3f}", str(one.n))
    show(table)
