"""Words: what models see of a text, and where it stands in the text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundling.text.words import caption, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A man in a red T-shirt, smiling.", "a man in a red t-shirt smiling"),
        ("The man's \"big\" dog isn't here!", "the man's big dog isn't here"),
        ("the water 's edge", "the water 's edge"),
        ("two dogs' bowls - one (blue) & one [red]", "two dogs bowls one blue one red"),
        ("the man’s hat—a “fedora”…", "the man's hat a fedora"),
        ("multi‑colored", "multi-colored"),  # a non-breaking hyphen
        ("--well-known--", "well-known"),
        ("snake_case", "snake case"),
        ("Straße in CAFÉ", "straße in café"),
        ("cafe\u0301", "café"),  # composed
        ("नमस्ते दुनिया", "नमस्ते दुनिया"),
        ("猫 と 犬", "猫 と 犬"),
        ("love ❤️ it 👩‍🚒👍🏽🇩🇪🇫🇷!", "love ❤️ it 👩‍🚒 👍🏽 🇩🇪 🇫🇷"),
        ("10 dogs", "10 dogs"),
        (" \t\n", ""),
        ("?!...", ""),
        ("", ""),
    ],
)
def test_words_are_lower_case_and_without_punctuation(text: str, expected: str) -> None:
    assert [word for word, _ in words(text)] == expected.split()


def test_spans_point_at_the_characters_of_the_text() -> None:
    text = "The man’s T-SHIRT is red."
    assert [text[slice(*span)] for _, span in words(text)] == ["The", "man’s", "T-SHIRT", "is", "red"]


@given(st.text())
def test_any_text_gives_words_without_spaces_in_order(text: str) -> None:
    end = 0
    for word, (start, stop) in words(text):
        assert word and not any(c.isspace() for c in word)
        assert end <= start < stop <= len(text)
        end = stop


@given(st.text(st.characters(codec="ascii")))
def test_the_short_way_for_plain_text_finds_what_the_long_way_finds(text: str) -> None:
    """A letter outside of ASCII at the end switches to the general pattern and must change nothing before it."""
    assert words(f"{text} é")[:-1] == words(text)


def test_a_caption_holds_tokens_and_spans() -> None:
    found = caption("Two dogs.")
    assert found.text == "Two dogs." and found.tokens == ("two", "dogs") and found.spans == ((0, 3), (4, 8))
    assert found.tags == () and found.nouns == (False, False)
