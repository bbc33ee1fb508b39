"""Captions that point: every noun of a caption tied to the place in the image or video that it speaks of."""

__version__ = "0.1.0"
