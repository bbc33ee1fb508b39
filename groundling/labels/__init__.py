"""Labels: captioned images in, phrases with boxes and calibrated confidence out.

    from groundling import labels

    labeller = labels.load()
    for label in labeller.image("photo.jpg", ["A man walks his dog.", "A person with a dog."]).labels:
        print(label.phrase, label.confidence, [placed.box for placed in label.boxes])

A label is one thing of an image: all phrases that name it, in all captions, and where it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groundling.labels.label import Label, LabelledImage, Mention, PlacedBox

if TYPE_CHECKING:
    from groundling.labels.labeller import Labeller

__all__ = ["Label", "LabelledImage", "Mention", "PlacedBox", "load"]


def load(model: str = "", device: str = "cpu", regions: str = "", *, joints: bool = True) -> Labeller:
    """What labels images: the grounder in this folder, or the package's own. `regions`: a region store, if any.
    `joints`: as of `load_grounder`."""
    from groundling.labels.labeller import load as loaded

    return loaded(model, device, regions, joints=joints)
