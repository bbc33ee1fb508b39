"""Nouns of several words that name one thing: "fire hydrant", "soccer player", "bird of prey".

WordNet knows most of them. The few that captions have often and WordNet has not are listed here.
"""

from __future__ import annotations

from collections.abc import Iterator

from groundling.text.wordnet import wordnet
from groundling.types import Caption, Span

LONGEST = 4  # words
MORE = frozenset({
    "baseball_player", "basketball_player", "birthday_cake", "bow_tie", "cell_phone", "coffee_cup", "computer_mouse",
    "computer_monitor", "dirt_bike", "dirt_road", "fire_hydrant", "frisbee_player", "hair_dryer", "hair_drier",
    "hockey_player", "hot_dog", "laptop_computer", "living_room", "mountain_bike", "paddle_board", "parking_lot",
    "parking_meter", "pizza_box", "potted_plant", "power_line", "rugby_player", "soccer_ball", "soccer_player",
    "sports_ball", "stop_sign", "street_light", "street_sign", "stuffed_animal", "swim_trunks", "tank_top",
    "teddy_bear", "tennis_ball", "tennis_court", "tennis_player", "tennis_racket", "toilet_seat", "traffic_light",
    "traffic_sign", "train_station", "wet_suit", "wine_glass",
})  # fmt: skip
PLAIN = frozenset({"bad", "big", "fat", "good", "large", "little", "new", "old", "short", "small", "tall", "young"})
NOT_INSIDE = ("CC", "DT", "EX", "IN", "MD", "PDT", "PRP", "RP", "TO", "W")  # tags of words that no compound has
NOT_LAST = (*NOT_INSIDE, "CD", "VBD", "VBG", "VBN", "VBZ")


def is_compound(words: tuple[str, ...]) -> bool:
    """Whether these words together are one noun; the last may be a plural or an owner."""
    joined = "_".join(words).removesuffix("'s")
    singular = joined.removesuffix("es") if joined.endswith(("xes", "shes", "sses")) else joined.removesuffix("s")
    if len(words) < 2 or words[0] in PLAIN:  # "old boy" is in WordNet
        return False
    return not MORE.isdisjoint({joined, singular}) or wordnet().base(joined) is not None


def compounds(caption: Caption) -> list[Span]:
    """The compounds of an annotated caption as spans of tokens: the longest first, none inside another.

    A word that the tagger took for no noun may end one ("fire hydrant/RB"), unless its form or place is against
    it, as in "a man walking stick in hand"; the word before it is then a noun.
    """
    spans: list[Span] = []
    taken: set[int] = set()
    for length in range(min(LONGEST, len(caption.tokens)), 1, -1):
        for span in _runs(caption, length):
            if taken.isdisjoint(range(*span)) and is_compound(caption.tokens[slice(*span)]):
                spans.append(span)
                taken.update(range(*span))
    return sorted(spans)


def _runs(caption: Caption, length: int) -> Iterator[Span]:
    """So many neighbouring words whose tags allow a compound; the last first: in "red fire hydrant" the hydrant."""
    for start in reversed(range(len(caption.tokens) - length + 1)):
        tags, tokens = caption.tags[start : start + length], caption.tokens[start : start + length]
        inside = all(not tag.startswith(NOT_INSIDE) or token == "of" for tag, token in zip(tags, tokens, strict=True))
        last = tags[-1].startswith("NN") or (tags[-2].startswith("NN") and not tags[-1].startswith(NOT_LAST))
        verb = tags[0].startswith("V") and start > 0 and caption.tags[start - 1].startswith("NN")
        if inside and last and not verb:
            yield start, start + length
