"""Write what the stored scores of the papers' tables make: docs/papers.md, and numbers of recipes in the README.

    python tools/papers_pages.py [--add OUT/summaries …]

The summaries are docs/papers/*.json; --add first adds those of folders that `groundling reproduce` has written: rows
that were run elsewhere stay (`summary.merged`).
A line of the README's table names a score and, last, rows of a table: the numbers before it are those of these rows,
the paper's and ours on drawn scenes, the first row before an arrow. A star: the difference has p < 0.05.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from groundling.papers.claims import CLAIMS
from groundling.papers.page import page
from groundling.papers.summary import ALPHA, DIRECTION, Summaries, merged, read, write
from groundling.papers.tables import Table, table

ROOT = Path(__file__).resolve().parent.parent
SCORES = {  # of the README -> our scores
    "attention": "attention",
    "F1_loc": "f1_loc",
    "CIDEr-D": "CIDEr-D",
    "accuracy": "recall@1 any argmax",
}
DRAWN = ("scenes", "moving")  # data that the README shows
NOTE = f"""\
## How the runs were made

Each table has its command. The data sets that it names are made so:

**`scenes`**, drawn scenes, and **`moving`**, drawn scenes that move:

```console
$ groundling scenes scenes --images 2500 --splits 0.48 0.04 0.48
$ groundling regions extract scenes --source scenes --set map=4 --out scenes.regions
$ groundling regions truth scenes --out scenes-true.regions
$ groundling regions extract scenes --source scenes --set detector=teacher --out scenes-free.regions
$ groundling regions biased scenes --regions scenes.regions --out scenes-biased.regions
$ groundling scenes moving --video --images 1600 --frames 4 --splits 0.48 0.04 0.48
$ groundling regions extract moving --source scenes --set map=4 --out moving.regions
```

**`coco-part`**, a part of COCO: 10,000 photos of train2014 to learn from, 500 of val2014 to choose epochs by, and 2,000
others of val2014, the split `val-rest`, to score: nothing was chosen by these. The folder data/coco holds
captions_train.json and captions_val.json of COCO with their images.

```console
$ python tools/papers_coco.py data/coco coco-part
$ groundling regions extract coco-part --source photos --out coco-part.regions
```

**`photos`**, photos of Flickr8k with the boxes of Flickr30k Entities: the first of its training photos to learn from,
others to choose epochs by, and as the split `test` its 1,000 validation photos. Tables that learned from 3,000 photos
take the first of these 5,500 (`--limit`). Tables that learned from 2,000 have the first 2,000 photos in train.txt, and
the next 200 in val.txt.

```console
$ mkdir photos && ln -s ../flickr8k-entities/images ../flickr8k-entities/annotations.zip photos
$ head -n 5500 flickr8k-entities/train.txt > photos/train.txt
$ tail -n +5501 flickr8k-entities/train.txt | head -n 500 > photos/val.txt
$ cp flickr8k-entities/val.txt photos/test.txt
$ groundling regions extract photos --source photos --out photos.regions
$ groundling regions extract photos --source photos_detected --out photos-detected.regions
$ groundling regions extract photos --source photos_searched --out photos-free.regions
```

### Seeds

Seeds are 0, 1 and 2 (0 and 1 of `pos-scan-table-4`). A claim on drawn scenes that these left at “{DIRECTION}”
is to get seeds 3, 4 and 5 for both its rows; other claims on the same rows then have them, too. That was decided before
any of these was run, but not which claims come first. {{done}}
claims on drawn scenes have more than three seeds so far, {{due}} that are to get them have not. No seed is left out.
A second look at some claims makes p < {ALPHA} by chance more likely: the column “seeds” says which have had one.

### Machines

The runs are of several machines. On all but one of them the same command gives the same scores, within 1e-15, wherever
that was tried. On the other one seeds train other models; nothing that is shown here was trained there.
For one claim it matters which runs are shown: that cyclical training helps with a perfect detector. The six seeds here
confirm it. Six seeds of the other machine did not show it. The 15 pairs of runs that there are of all machines do not
confirm it by the seeds alone. Rows were trained anew when their code or their settings had changed; which came first
hung on the time that there was, never on results. [Numbers that were replaced](history.md) has the earlier ones, and
which machine made which rows.

### Exceptions

- The line “regions” of a table names the version of the region source. Rows with `photos 2` are of an earlier network
  than that of `photos 3`, which the commands above run.
- `cyclical-table-12` has the runs of `cyclical-table-2`, scored on test as well.
- `contrastive-table-3` has no posts on drawn scenes: one caption of each image is learned from at a time.
- Both rows of `pos-scan-table-3` have the same regions on drawn scenes, and differ in λ1 alone.
- `nce-distill-table-5` and `nce-distill-table-5-vgg` have the regions of `nce-distill-table-4` on drawn scenes; the
  former has another weight of distillation.
- On photos, tables of captioners have the regions `photos_detected`. With those of `photos`, one of which is the whole
  image, attention that nobody teaches stays there: `cyclical-table-6` then had F1_all 0.1 in both rows. The regions
  were chosen after the attention of one captioner with each had been scored on `test`, sizes and rates (`--set`) by
  CIDEr-D of the first captioner on `val`: both are the same for all rows of a table.
"""
FIRST = "| recipe | what it is |"  # begins the table
NOT_RUN = "·"
FEW_SEEDS = 3


def note(found: Summaries) -> str:
    """NOTE with the numbers of claims on drawn data that have more seeds, and that are to get them."""
    claims = [
        one
        for each in found.values()
        for summary in each
        if summary["data"] in DRAWN
        for one in summary["claims"].values()
        if one
    ]
    more = [len(one["seeds"]) > FEW_SEEDS for one in claims]
    due = sum(one["verdict"] == DIRECTION and not many for one, many in zip(claims, more, strict=True))
    return NOTE.format(done=sum(more), due=due)


def readme(text: str, found: Summaries) -> str:
    """The README with the numbers of its table of recipes made from the summaries."""
    lines = text.split("\n")
    start = next(i for i, line in enumerate(lines) if line.startswith(FIRST))
    for i in range(start + 2, lines.index("", start)):
        name, what, score, _, _, command = lines[i].strip("|").split(" | ")
        of, _, numbers = command.strip(" |`").partition(" --rows ")
        chosen, rows = table(of), [int(number) - 1 for number in numbers.split(",")]
        cells = [name.strip(), what, score, printed(chosen, rows, SCORES[score])]
        cells += [ours(chosen, rows, SCORES[score], found), command.strip(" |")]
        lines[i] = ("| " + " | ".join(cells) + " |").replace("|  |", "| |")
    return "\n".join(lines)


def printed(of: Table, rows: Sequence[int], score: str) -> str:
    """The paper's numbers of rows of a table, which count from 0."""
    heading = next(name for name, own in of.columns.items() if own == score)
    numbers = [of.rows[row].paper.get(heading) for row in rows]
    return " → ".join(f"{x:.1f}" for x in numbers if x is not None) if None not in numbers else "ours alone"


def ours(of: Table, rows: Sequence[int], score: str, found: Summaries) -> str:
    """Our means over the seeds that all these rows have, starred where the difference is sure; else NOT_RUN."""
    jobs = [of.rows[row].job for row in rows]
    for summary in found.get(of.name, ()):
        cells = [summary["rows"].get(job, {}).get(score) for job in jobs]
        seeds = set.intersection(*(set(cell["values"]) for cell in cells)) if all(cells) else set()
        if summary["data"] in DRAWN and seeds:
            means = " → ".join(f"{100 * fmean(cell['values'][seed] for seed in seeds):.1f}" for cell in cells)
            return means + ("*" if len(jobs) == 2 and sure(of, rows, score, summary) else "")
    return NOT_RUN


def sure(of: Table, rows: Sequence[int], score: str, summary: Mapping[str, Any]) -> bool:
    """Whether the second row differs from the first: by the test against the baseline, or by that of a claim."""
    first, second = (of.rows[row] for row in rows)
    if summary["baseline"] == first.label:
        tests = [summary["rows"][second.job][score]]
    else:
        told = [c for c in CLAIMS if (c.table, c.score, {c.job, c.than}) == (of.name, score, {first.job, second.job})]
        tests = [summary["claims"].get(claim.text) for claim in told]
    return any(test and test["p"] is not None and test["p"] < ALPHA for test in tests)


def add(file: Path, stored: Path) -> None:
    """Write a summary to the folder of those that are stored, with the rows that the stored one has besides."""
    new, path = json.loads(file.read_bytes()), stored / file.name
    write(stored, merged(json.loads(path.read_bytes()), new) if path.exists() else new)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--add", nargs="+", type=Path, default=[], metavar="FOLDER", help="summaries to add first")
    stored = ROOT / "docs" / "papers"
    for folder in parser.parse_args().add:
        for file in sorted(folder.glob("*.json")):
            add(file, stored)
    found = read(stored)
    (ROOT / "docs" / "papers.md").write_text(page(found, note(found)), encoding="utf-8")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (ROOT / "README.md").write_text(readme(text, found), encoding="utf-8")


if __name__ == "__main__":
    main()
