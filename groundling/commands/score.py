"""Score captions and their grounding: our own files, or the official ones by name."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from groundling.commands import teach
from groundling.commands.score_table import add_bootstrap, add_iou, metric_names, print_scores, show
from groundling.errors import GroundlingError, did_you_mean

if TYPE_CHECKING:
    from groundling.evaluation.evaluator import CaptionEvaluator
    from groundling.metrics.evaluation import Evaluation
    from groundling.metrics.significance import Comparison
    from groundling.types import GroundedCaption

OFFICIAL = {  # what the first word may be -> module, one line
    "captions": ("score_captions", "COCO results against a COCO captions file: BLEU, ROUGE-L, CIDEr, METEOR, SPICE"),
    "flickr30k-entities": ("score_grounding", "a Flickr30k-Entities submission, as its evaluator scores it"),
    "activitynet-entities": ("score_grounding", "an ActivityNet-Entities submission, as its evaluator scores it"),
    "phrases": ("score_phrases", "phrase localisation: Recall@1/5/10, pointing game, upper bound"),
    "labels": ("score_labels", "labels against boxes that people drew: precision, recall, calibration"),
    "chair": ("score_chair", "CHAIR: objects that captions mention and images do not show"),
    "human": ("score_human", "how well metrics agree with people's ratings of captions: Kendall's tau_b and tau_c"),
    "foils": ("score_foils", "does a grounder notice which noun of a caption was replaced?"),
    "audit": ("score_audit", "an audit against references: do nouns that no reference mentions have less evidence?"),
    "classes": ("score_classes", "region classification: does a region have the class of the box that it overlaps?"),
    "attention": (
        "score_attention",
        "attention accuracy: at each word of a reference, is the attention on its box?",
    ),
}

DESCRIPTION = """\
Score captions and their grounding, each number with its signature.

  groundling score PRED --data DATA [--split NAME]     all scores of captions and boxes
  groundling score --compare A B C --data DATA         systems side by side, the first is the baseline
  groundling score NAME ...                            files of other formats, and models; NAME is one of

""" + "\n".join(f"    {name:22}{line}" for name, (_, line) in OFFICIAL.items())

EPILOG = """\
PRED holds JSON lines (`groundling caption`), a COCO results list, or a grounding submission. Texts are scored by BLEU,
ROUGE-L and CIDEr-D, and by diversity: distinct-n, vocabulary, and the share of captions that the train split does not
have. If PRED and the data have boxes, these are scored by the rules of Flickr30k-Entities (images) or
ActivityNet-Entities (videos), with the kinds of errors. An image without a caption is left out of the scores of texts,
which say so in their signature, and counts as missed in the scores of boxes. NaN is null in --json.

examples:
  groundling score val.jsonl --data data/scenes --split val --bootstrap 1000
  groundling score --pred results.json --refs captions_val2014.json
  groundling score --compare plain.jsonl grounded.jsonl --data data/flickr30k --split test
  groundling score flickr30k-entities --help"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Nothing is parsed here: the first word decides which options there are, so `run` parses all that follows."""
    parser.prefix_chars = "\0"  # no word is an option to this parser, not even --help
    parser.add_argument("words", nargs=argparse.REMAINDER)


def run(args: argparse.Namespace) -> int:
    words: list[str] = args.words
    name = words[0] if words and words[0] in OFFICIAL else ""
    parser = argparse.ArgumentParser(
        prog=f"groundling score {name}".strip(),
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if not name:
        _check_name(words)
        _add_own(parser)
        teach(parser, words)
        return _score(parser, parser.parse_args(words))
    module = importlib.import_module(f"groundling.commands.{OFFICIAL[name][0]}")
    module.add_arguments(parser)
    teach(parser, words)
    parser.set_defaults(name=name)
    return module.run(parser.parse_args(words[1:])) or 0


def _check_name(words: Sequence[str]) -> None:
    """GroundlingError where the first word is a mistyped name of a score rather than a file."""
    for word in words[:1]:
        near = did_you_mean(word, OFFICIAL)
        if near and not word.startswith("-") and not Path(word).exists():
            raise GroundlingError(f"there is no file {word!r} and no score of that name{near}")


def _add_own(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("file", nargs="?", metavar="PRED", type=Path, help="captions to score")
    parser.add_argument("--pred", type=Path, metavar="PRED", help="the same as PRED, as a flag")
    parser.add_argument(
        "--compare", nargs="+", type=Path, metavar="PRED", help="several systems; the first is the baseline"
    )
    parser.add_argument(
        "--data",
        "--refs",
        type=Path,
        metavar="DATA",
        help="data set with references; `groundling doctor` lists the formats",
    )
    parser.add_argument("--split", metavar="NAME", help="split that was captioned (default: all images of the data)")
    parser.add_argument(
        "--metrics", default="bleu,rouge,cider-d", metavar="NAMES",
        help="among bleu, rouge, cider, cider-d, meteor, spice, with commas (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--grounding", action="store_true", help="end with an error if there are no boxes to score")
    parser.add_argument("--skip-bad", action="store_true", help="leave out items of the data set that cannot be read")
    add_iou(parser)
    add_bootstrap(parser)
    parser.add_argument("--seed", type=int, default=0, help="seed of the resamples (default 0)")
    parser.add_argument(
        "--html",
        nargs="?",
        const="",
        metavar="FILE",
        help="also write an HTML page: scores (also by class and class frequency), errors, images",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print JSON, with scores by class and class frequency, and every scored word",
    )


# ---------------------------------------------------------------- our own files


def _score(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    files: list[Path] = args.compare or [path for path in (args.file, args.pred) if path]
    if args.compare and (args.file or args.pred):
        parser.error("name the systems after --compare, and no other")
    if len(files) != 1 and not args.compare:
        parser.error("name one file of captions, such as: groundling score val.jsonl --data data/scenes")
    if len(set(files)) < len(files):
        parser.error("--compare: a file is named twice")
    if args.data is None:
        parser.error("name the data set with --data")
    from groundling.evaluation.evaluator import evaluator_for, read

    metrics = metric_names(args.metrics)
    systems = [read(path) for path in files]
    evaluator = evaluator_for(systems, args.data, args.split, grounding=args.grounding, skip_bad=args.skip_bad)
    options = {"iou": args.iou, "bootstrap": args.bootstrap, "seed": args.seed}
    evaluations = [evaluator(system.captions, metrics, **options) for system in systems]
    if args.compare:
        _report_comparison(files, evaluations, args)
    elif args.json:
        print(json.dumps(evaluations[0].to_dict(), allow_nan=False))
    else:
        _print_evaluation(evaluations[0])
    if args.html is not None:
        _page(files, [system.captions for system in systems], evaluator, evaluations, args)
    return 0


# ---------------------------------------------------------------- tables


def _print_evaluation(evaluation: Evaluation) -> None:
    print_scores(evaluation.scores, evaluation.intervals)
    if evaluation.errors is not None:
        best = evaluation.errors.upper_bound
        shapes = ", ".join(f"{share:.1%} {shape}" for shape, share in evaluation.errors.shapes.items())
        print(f"\nwrong groundings: {shapes}")
        print(
            f"with partial groundings counted as right: f1_all {best['all']['f1']:.4f}, f1_loc {best['loc']['f1']:.4f}"
        )


def _report_comparison(files: Sequence[Path], evaluations: Sequence[Evaluation], args: argparse.Namespace) -> None:
    from groundling.metrics.significance import compare

    names = _short_names(files)
    samples = args.bootstrap or 1000
    first = evaluations[0]
    columns = [compare(first.statistics, other.statistics, samples, seed=args.seed) for other in evaluations[1:]]
    if args.json:
        from dataclasses import asdict

        from groundling.metrics.evaluation import finite

        systems = {n: e.to_dict(records=False) for n, e in zip(names, evaluations, strict=True)}
        tests = {n: [asdict(one) for one in column] for n, column in zip(names[1:], columns, strict=True)}
        print(json.dumps({"systems": systems, "baseline": names[0], "tests": finite(tests)}, allow_nan=False))
    else:
        _print_comparison(names, evaluations, columns, samples)


def _print_comparison(
    names: Sequence[str], evaluations: Sequence[Evaluation], columns: Sequence[Sequence[Comparison]], samples: int
) -> None:
    from rich.table import Table

    table = Table("score", box=None, pad_edge=False)
    for name in names:
        table.add_column(name, justify="right")
    first, *others = evaluations
    for i, score in enumerate(first.scores[: len(first.statistics)]):
        cells = [f"{column[i].system:.4f}{_stars(column[i].p_randomisation)}" for column in columns]
        table.add_row(score.name, f"{score.value:.4f}   ", *cells)
    for scores in zip(first.diversity, *(other.diversity for other in others), strict=True):  # no test for these
        table.add_row(scores[0].name, *(f"{score.value:.4f}   " for score in scores))
    show(table)
    print(
        f"\n{names[0]} is the baseline. Paired approximate randomisation, {samples} swaps: "
        "* p < 0.05, ** p < 0.01, *** p < 0.001"
    )
    for about in dict.fromkeys(score.signature.partition("|")[2] for score in first.scores):
        print(f"signature: {about}")


def _stars(p: float) -> str:
    return next((stars for limit, stars in ((0.001, "***"), (0.01, "** "), (0.05, "*  ")) if p < limit), "   ")


def _short_names(files: Sequence[Path]) -> list[str]:
    stems = [path.stem for path in files]
    return stems if len(set(stems)) == len(stems) else [str(path) for path in files]


def _page(
    files: Sequence[Path],
    systems: Sequence[Sequence[GroundedCaption]],
    evaluator: CaptionEvaluator,
    evaluations: Sequence[Evaluation],
    args: argparse.Namespace,
) -> None:
    from groundling.commands import report
    from groundling.commands.outputs import new_file

    evaluated = report.Evaluated.of(evaluator.examples, evaluations)
    shown = [{caption.id: caption for caption in captions if caption.id in evaluated.examples} for captions in systems]
    with redirect_stdout(sys.stderr):  # standard output has the scores, as JSON perhaps
        page = new_file(args.html or f"{files[0].stem}.html", *files, args.data)
        report.page(page, _short_names(files), shown, evaluated)
