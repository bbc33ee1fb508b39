"""Two systems compared by people: which words are asked, who is asked, and what the answers say."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from groundling.cli import main
from groundling.errors import DataError
from groundling.papers.study import compare, questions, study_id, two_of
from groundling.papers.study.answers import SAME, Ratings, evaluate, kappa, read
from groundling.papers.study.verbs import link_verbs
from groundling.types import GroundedCaption, Link, WordAttention


def captioned(id: str, text: str, linked: dict[int, float]) -> GroundedCaption:
    """A caption whose tokens in `linked` have a box that begins at that place."""
    tokens = tuple(text.split())
    starts = [len(" ".join(tokens[:i])) + (i > 0) for i in range(len(tokens))]
    spans = tuple((start, start + len(token)) for start, token in zip(starts, tokens, strict=True))
    links = tuple(Link(t, spans[t], (x, 0.0, x + 9, 9.0), 0.5) for t, x in linked.items())
    return GroundedCaption(id, text, tokens, spans, links, size=(64, 48))


def test_shared_words_with_places_in_both_are_asked() -> None:
    a = captioned("x", "a man and a man with a dog", {1: 1, 4: 4, 7: 7})
    b = captioned("x", "a dog near a man and a man", {1: 10, 4: 40, 7: 70})
    found = questions(a, b)
    assert [(q.word, q.tokens) for q in found] == [("man", (1, 4)), ("man", (4, 7)), ("dog", (7, 1))]
    assert [(q.places[0][0].box[0], q.places[1][0].box[0]) for q in found] == [(1, 40), (4, 70), (7, 10)]


def test_a_word_without_a_place_in_one_of_them_is_not_asked() -> None:
    assert not questions(captioned("x", "a man", {1: 1}), captioned("x", "a man", {}))
    assert not questions(captioned("x", "a man", {1: 1}), captioned("x", "a dog", {1: 1}))


def looking(x: float) -> GroundedCaption:
    """ "runs" has no link, and looks at a box that begins at `x` most."""
    attention = tuple(WordAttention(t, ((x, 0.0, 9.0, 9.0), (50.0, 0.0, 60.0, 9.0)), (0.7, 0.2)) for t in range(3))
    return replace(captioned("x", "a dog runs", {1: 3.0}), attention=attention)


def test_verbs_are_asked_by_the_region_that_was_attended_to_most() -> None:
    """The place of "runs" is the heaviest box of its look; nouns keep theirs, other words have none."""
    a, b = link_verbs([looking(1.0), looking(2.0)])
    assert [(q.word, q.places[0][0].box[0], q.places[1][0].box[0]) for q in questions(a, b)] == [
        ("dog", 3.0, 3.0),
        ("runs", 1.0, 2.0),
    ]
    with pytest.raises(DataError, match="caption --attention"):
        link_verbs([captioned("x", "a dog runs", {1: 3.0})])


def test_the_command_asks_about_verbs_where_it_is_told_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (64, 48)).save(tmp_path / "photos" / "x.png")
    files = [tmp_path / name for name in ("a.jsonl", "b.jsonl")]
    for file, x in zip(files, (1.0, 2.0), strict=True):
        file.write_text(json.dumps(looking(x).to_dict()) + "\n")
    for verbs, words in (([], 1), (["--verbs"], 2)):
        page = ["--images", tmp_path / "photos", "--out", tmp_path / f"{words}.html", *verbs]
        assert main([str(word) for word in ("study", *files, *page)]) == 0
        assert f": {words} words in 1 images" in capsys.readouterr().out


def test_of_one_given_sentence_all_words_with_places_are_asked() -> None:
    a, b = (captioned("x", "two dogs chase a cat and a cat", {1: x, 4: x, 7: x}) for x in (1, 2))
    assert [q.tokens for q in questions(a, b)] == [(1, 1), (4, 4), (7, 7)]


def test_images_and_sides_are_drawn_by_the_seed() -> None:
    a = {str(i): captioned(str(i), "a dog", {1: 1}) for i in range(60)}
    b = {str(i): captioned(str(i), "a dog", {1: 2}) for i in range(50)}
    one, same, other = compare(a, b, 40, 0), compare(a, b, 40, 0), compare(a, b, 40, 1)
    assert one == same and [s.id for s in one] != [s.id for s in other]
    assert len(one) == 40 and len(compare(a, b, 100, 0)) == 50
    assert 10 < sum(sheet.left for sheet in one) < 30


def test_a_study_that_is_shared_out_among_more_raters_is_another_one() -> None:
    """Even where the sheets are the same: of one image the first two raters are shown it, however many there are."""
    a, b = ({"0": captioned("0", "a dog", {1: x})} for x in (1, 2))
    (two, three) = (compare(a, b, 1, 0, raters) for raters in (2, 3))
    assert two == three
    names = {study_id(two, ("a", "b"), 0, raters) for raters in (2, 3)}
    assert len(names) == 2 and study_id(two, ("a", "b"), 0, 2) in names


def test_nothing_to_compare_is_told() -> None:
    with pytest.raises(DataError, match="nothing to compare"):
        compare({"x": captioned("x", "a dog", {1: 1})}, {"x": captioned("x", "a cat", {1: 1})}, 5, 0)


@pytest.mark.parametrize("raters", [2, 3, 5, 10])
def test_every_image_has_two_raters_and_every_rater_equally_many(raters: int) -> None:
    pairs = [two_of(image, raters) for image in range(raters * (raters - 1))]
    assert all(a != b and min(a, b) >= 0 and max(a, b) < raters for a, b in pairs)
    assert set(Counter(r for pair in pairs for r in pair).values()) == {2 * (raters - 1)}
    assert len(set(map(frozenset, pairs))) == raters * (raters - 1) // 2  # everybody meets everybody


# ---------------------------------------------------------------- answers


def ratings(rater: str, *given: int, study: str = "s") -> Ratings:
    return Ratings(study, ("plain", "ours"), rater, {(f"i{n // 2}", n, n): rating for n, rating in enumerate(given)})


def value(raters: list[Ratings]) -> dict[str, float]:
    return {one.name: one.score().value for one in evaluate(raters)}


def test_shares_agreement_and_kappa_by_hand() -> None:
    """First: 0 1 S S, second: 0 0 S 1. Of 8 ratings 3 are for plain, 2 for ours, 3 the same.

    Of 4 pairs 2 are the same, 1 opposite, 1 in between. Chance: first has (1/4, 1/4, 1/2), second (1/2, 1/4, 1/4):
    1/8 + 1/16 + 1/8 = 5/16; kappa = (1/2 - 5/16) / (11/16) = 3/11.
    """
    found = value([ratings("ann", 0, 1, SAME, SAME), ratings("bob", 0, 0, SAME, 1)])
    assert found["plain is better"] == 3 / 8 and found["ours is better"] == 2 / 8 and found["about the same"] == 3 / 8
    assert found["ours - plain"] == -1 / 8
    assert (found["same rating"], found["opposite"], found["in between"]) == (0.5, 0.25, 0.25)
    assert found["kappa"] == pytest.approx(3 / 11)


def test_kappa_is_1_in_full_agreement_and_unknown_where_nobody_ever_differs() -> None:
    assert kappa(np.array([3.0, 0, 0, 0, 2, 0, 0, 0, 4])) == pytest.approx(1.0)
    assert kappa(np.array([0.0, 1, 0, 1, 0, 0, 0, 0, 0])) == pytest.approx(-1.0)
    assert np.isnan(kappa(np.array([7.0, 0, 0, 0, 0, 0, 0, 0, 0])))


def test_one_rater_has_shares_and_no_agreement() -> None:
    found = value([ratings("ann", 0, 1)])
    assert found["plain is better"] == 0.5 and np.isnan(found["same rating"]) and np.isnan(found["kappa"])


def test_answers_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(DataError, match="two files are by the rater 'ann'"):
        evaluate([ratings("ann", 0), ratings("ann", 1)])
    with pytest.raises(DataError, match="different studies: s, t"):
        evaluate([ratings("ann", 0), ratings("bob", 1, study="t")])
    with pytest.raises(DataError, match="not a single answer"):
        evaluate([ratings("ann")])


def answer(choice: str, left: int, image: str = "i", token: int = 0) -> dict[str, Any]:
    return {"image": image, "word": "dog", "tokens": [token, token], "left": left, "choice": choice}


def dump(path: Path, rater: str, *answers: Any, **more: Any) -> Path:
    path.write_text(json.dumps({"study": "s", "systems": ["a", "b"], "rater": rater, "answers": answers} | more))
    return path


def test_the_key_undoes_the_order(tmp_path: Path) -> None:
    """Who was on the left was better: that is system `left`."""
    rows = [
        answer("left", 0, token=0),
        answer("left", 1, token=1),
        answer("right", 0, token=2),
        answer("same", 1, token=3),
    ]
    assert list(read(dump(tmp_path / "a.json", "ann", *rows)).of.values()) == [0, 1, 1, SAME]


@pytest.mark.parametrize(
    ("rows", "more", "told"),
    [
        ([answer("left", 2)], {}, "answers.*left 0 or 1"),
        ([answer("better", 0)], {}, "choice"),
        ([answer("left", 0), answer("same", 0)], {}, "answered before"),
        ([], {"systems": ["a"]}, "two systems, not 1"),
        ([3], {}, "answers"),
        ([], {"answers": {}}, "answers"),
    ],
)
def test_a_file_that_is_not_what_the_page_saves_is_named(
    tmp_path: Path, rows: list[Any], more: dict[str, Any], told: str
) -> None:
    with pytest.raises(DataError, match=told) as raised:
        read(dump(tmp_path / "odd.json", "ann", *rows, **more))
    assert "odd.json" in str(raised.value)


def test_the_command_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(dump(tmp_path / f"{n}.json", n, answer("left", 1), answer("same", 0, "j"))) for n in ("ann", "bob")]
    assert main(["study", "--answers", *files, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    low, high = found["intervals"]["b is better"]
    assert found["b is better"] == 0.5 and found["kappa"] == 1.0 and 0 <= low < 0.1 < 0.9 < high <= 1
    assert main(["study", "--answers", *files]) == 0
    assert "kappa" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["a.jsonl"], [], ["a.jsonl", "b.jsonl", "--answers", "c.json"]])
def test_the_command_wants_two_systems_or_answers(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", *words]) == 2
    assert "captions" in capsys.readouterr().err
