"""The review of labels: the page that `groundling label --review` writes, with this server as its store."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from groundling.errors import DataError, GroundlingError
from groundling.labels import LabelledImage, files, review
from groundling.labels.engine import Labelled
from groundling.labels.label import as_box
from groundling.labels.review_store import FILE, ReviewStore, parsed
from groundling.serve.problems import Problem, bad
from groundling.serve.requests import Fields

PARTS = ("review.css", "review.js")  # served beside the page
STYLE = "".join(
    f'<link rel="{kind}" href="/{name}">'
    for kind, name in (("icon", "icon.svg"), ("stylesheet", "page.css"), ("stylesheet", "review.css"))
)
SCRIPT = '<script type="module" src="/review-store.js"></script><script defer src="/review.js"></script>'
NOTE = (
    "Every decision is on the disk of the server before the next label is shown. To use them: "
    '<code>groundling label --out LABELS --apply LABELS/review.jsonl</code>. <a href="/">Back to photos</a>'
)


@dataclass(frozen=True)
class Review:
    """Labels that people decide about, the least certain first."""

    chosen: tuple[tuple[LabelledImage, int], ...]
    store: ReviewStore

    @staticmethod
    def open(labels: str, file: Path | None, limit: int) -> Review:
        """GroundlingError where the folder holds no labels, or the decisions cannot be kept."""
        chosen = review.least_certain(Labelled(labels), limit)
        if not chosen:
            raise GroundlingError(f"{labels}: no label in it has a box: there is nothing to review")
        if file is None and files.remote(labels):
            raise GroundlingError(f"{labels} is not on this machine: name a file for the decisions with --reviews FILE")
        return Review(tuple(chosen), ReviewStore.open(file or Path(labels) / FILE))

    def contents(self) -> dict[str, tuple[bytes, str]]:
        """The page and what belongs to it: address -> content, file name."""
        page = review.page(len(self.chosen), STYLE, SCRIPT, NOTE).encode()
        return {"/review": (page, "review.html"), **{f"/{name}": (review.part(name), name) for name in PARTS}}

    def to_dict(self) -> dict[str, Any]:
        """The labels, and what was decided about any of them so far."""
        rows = [review.row_of(image, at) for image, at in self.chosen]
        shown = {(row["image"], row["label"]) for row in rows}
        kept = [asdict(one) for one in self.store.decisions() if (one.image, one.label) in shown]
        return {"rows": rows, "decisions": kept}

    def decide(self, fields: Fields) -> dict[str, Any]:
        """Keep what was sent; Problem where it is no decision. Blocks until the disk has it."""
        row = {
            "image": fields.text("image", 1000),
            "label": fields.number("label", 0, 1e6, whole=True),
            "action": fields.text("action", 20),
            "boxes": fields.get("boxes"),
            "phrase": fields.text("phrase", 200),
        }
        fields.done()
        image = self._image(row["image"], row["label"])
        try:
            for box in row["boxes"] or ():
                as_box(box, image.size)
            if len(row["boxes"] or ()) > fields.limits.phrases:
                raise ValueError(f"a label has at most {fields.limits.phrases} boxes")
            key, decision = parsed(row)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise bad(f"not a decision about a label: {error}") from error
        try:
            return {"decisions": self.store.add(key, decision)}
        except OSError as error:
            raise Problem(507, "disk", f"the decision could not be kept: {error.strerror}") from error

    def picture(self, id: str) -> bytes:
        """A picture of the page, by the id of its image. No request names a path."""
        try:
            return review.picture(self._image(id))
        except DataError as error:
            raise Problem(404, "unknown-photo", f"the photo of this label cannot be shown: {error}") from error

    def _image(self, id: str, label: Any = None) -> LabelledImage:
        for image, at in self.chosen:
            if image.id == id and label in (None, at):
                return image
        raise Problem(404, "unknown-label", "there is no such label in the review; GET /v1/review lists them")
