"""Which phrases of a caption are looked for, and by which words."""

from __future__ import annotations

from groundling.evaluation.evidence import _tokens, parse, phrases_of


def test_stops_end_phrases_and_are_no_words_that_are_looked_for() -> None:
    """The places of stops are those in the caption: "a big, brown dog" is one phrase, and three words."""
    [caption] = parse(["a big, brown dog with a plate, fork and knife"], stops=True)
    asked = [(_tokens(caption, phrase, lambda noun, lemma: None)) for phrase in phrases_of(caption)]
    assert asked == [(("a", "big", "brown", "dog"), 3), (("a", "plate"), 1), (("fork",), 0), (("knife",), 0)]
    [start, *_] = phrases_of(caption)
    assert caption.text[caption.spans[start.start][0] : caption.spans[start.end - 1][1]] == "a big, brown dog"
