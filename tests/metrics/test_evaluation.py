"""Our own nouns in, every score out; the grounding scores are those of the official rules on the official files."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest

from groundling.data import evaluator_files
from groundling.errors import DataError
from groundling.metrics.evaluation import by_lemma, evaluate
from groundling.metrics.grounding_image import flickr30k_entities
from groundling.metrics.grounding_video import activitynet_entities
from groundling.text.words import caption as as_caption
from groundling.types import Box, Example, GroundedCaption, Link, Phrase

NOUNS = ["dog", "cat", "man", "hat", "ball", "tree"]
KNOWN = [*NOUNS, "horse"]  # a class that no image of the split shows counts all the same when a caption has it


def box(rng: random.Random) -> Box:
    x, y = rng.randint(0, 80), rng.randint(0, 80)
    return (float(x), float(y), float(x + rng.randint(5, 90)), float(y + rng.randint(5, 90)))


def caption(id: str, text: str, links: dict[int, list[Box]]) -> GroundedCaption:
    words = as_caption(text)
    made = [
        Link(token, words.spans[token], one, 0.5, frame)
        for token, boxes in links.items()
        for frame, one in enumerate(boxes)
    ]
    return GroundedCaption(id, text, words.tokens, words.spans, tuple(made))


def corpus(video: bool) -> tuple[list[GroundedCaption], list[Example]]:
    rng = random.Random(0)
    captions, examples = [], []
    for i in range(30):
        id = f"v_{i:03}_segment_00" if video else str(i)
        shown = {noun: box(rng) for noun in rng.sample(NOUNS, 3)}
        texts, gold = [], []
        for c in range(1 if video else 3):
            first, second = rng.sample(sorted(shown), 2)
            texts.append(as_caption(f"a {first} near the {second}s"))
            for head, noun in ((1, first), (4, second)):
                if rng.random() < 0.8:
                    frames = (rng.randint(0, 9),) if video else ()
                    gold.append(Phrase(c, (head - 1, head + 1), (shown[noun],), frames, label=noun, head=head))
                    if rng.random() < 0.2:  # a word of two phrases
                        gold.append(Phrase(c, (0, head + 1), (box(rng),), frames, label=noun, head=head))
            gold.append(Phrase(c, (2, 3), (box(rng),), (0,) if video else ()))  # a place, but no class
        examples.append(Example(id, "", (200, 200), tuple(texts), tuple(gold), split="val"))
        nouns = rng.sample(KNOWN, 2)
        places = [
            [shown.get(n, box(rng)) if rng.random() < 0.7 else box(rng) for _ in range(10 if video else 1)]
            for n in nouns
        ]
        one = caption(id, f"two {nouns[0]}s and a {nouns[1]}", {1: places[0], 4: places[1]})
        again = (replace(one.links[0], box=box(rng)),) if rng.random() < 0.3 else ()  # a word that points twice
        captions.append(replace(one, links=(*again, *one.links) if rng.random() < 0.5 else (*one.links, *again)))
    return captions, examples


@pytest.mark.parametrize("video", [False, True])
def test_grounding_equals_that_of_the_official_files_that_the_same_nouns_are_written_to(video: bool) -> None:
    captions, examples = corpus(video)
    class_of = {noun: noun for noun in KNOWN} | {f"{noun}s": noun for noun in KNOWN}
    found = {s.name: s.value for s in evaluate(captions, examples, class_of=by_lemma(KNOWN)).scores}
    if video:
        expected: Any = activitynet_entities(
            evaluator_files.video_submission(captions, class_of), evaluator_files.video_reference(examples),
            evaluator_files.video_splits(examples), "validation",
        )  # fmt: skip
    else:
        expected = flickr30k_entities(
            evaluator_files.image_submission(captions, class_of), evaluator_files.image_reference(examples),
            evaluator_files.image_splits(examples), "val",
        )  # fmt: skip
    for mode in ("all", "loc"):
        for key, value in expected[mode].items():
            if key != "num_classes":
                assert found[f"{key}_{mode}"] == pytest.approx(value, abs=1e-9), key
    assert found["f1_all"] > 0.1


def test_a_perfect_caption_scores_one_and_its_errors_are_none() -> None:
    example = Example(
        "1", "", (99, 99), (as_caption("a dog"),), (Phrase(0, (0, 2), ((0, 0, 50, 50),), label="dog", head=1),)
    )
    other = Example(
        "2", "", (99, 99), (as_caption("two cats"),), (Phrase(0, (0, 2), ((0, 0, 50, 50),), label="cat", head=1),)
    )
    captions = [caption("1", "a dog", {1: [(0, 0, 50, 50)]}), caption("2", "two cats", {1: [(0, 0, 50, 50)]})]
    evaluation = evaluate(captions, [example, other], bootstrap=20, frequency={"dog": 3, "cat": 2})
    found = {score.name: score for score in evaluation.scores}
    assert found["f1_all"].value == found["f1_loc"].value == found["corr_grd"].value == 1.0
    assert found["BLEU-1"].value == pytest.approx(1)
    assert "text:generated" in found["f1_all"].signature and "tok:ptb" in found["BLEU-1"].signature
    plain = json.loads(json.dumps(evaluation.to_dict()))
    assert plain["scores"][0]["interval"] == [pytest.approx(1), pytest.approx(1)]
    assert [record["kind"] for record in plain["records"]] == ["corr_grd", "corr_grd"]
    assert plain["per_class"]["dog"]["all"]["f1"] == 1.0
    assert [group["classes"] for group in plain["by_frequency"]] == [["dog"], ["cat"]]


def test_several_boxes_of_one_word_are_one_target_in_an_image() -> None:
    gold = (Phrase(0, (0, 2), ((0, 0, 50, 50), (50, 50, 100, 100)), label="dog", head=1),)
    example = Example("1", "", (99, 99), (as_caption("two dogs"),), gold)
    for place, right in (((0.0, 0.0, 100.0, 100.0), 1.0), ((0.0, 0.0, 50.0, 50.0), 0.0)):
        found = {s.name: s.value for s in evaluate([caption("1", "a dog", {1: [place]})], [example]).scores}
        assert found["recall_all"] == right


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["0", "0"], "image '0' has two captions"),
        (["0", "x"], "1 of 2 captions are of images that are not in this data, such as 'x'"),
    ],
)
def test_captions_must_be_of_images_of_the_data_and_one_each(ids: list[str], message: str) -> None:
    _, examples = corpus(video=False)
    with pytest.raises(DataError, match=message):
        evaluate([caption(id, "a dog", {}) for id in ids], examples)


def test_an_image_without_a_caption_is_left_out_of_the_texts_and_missed_by_the_links() -> None:
    captions, examples = corpus(video=False)
    whole, part = ({s.name: s for s in evaluate(c, examples).scores} for c in (captions, captions[:20]))
    assert part["CIDEr-D"].n == 20 and "n:20/30" in part["CIDEr-D"].signature
    assert part["recall_all"].n == 30 and part["recall_all"].value < whole["recall_all"].value


def film(frames: tuple[int, ...]) -> Example:
    gold = tuple(Phrase(0, (0, 2), ((0, 0, 50, 50),), (frame,), label="dog", head=1) for frame in frames)
    return Example("1", "", (99, 99), (as_caption("a dog"),), gold)


@pytest.mark.parametrize(("frame", "recall"), [(0, 1.0), (1, 0.0), (10**12, 0.0)])
def test_a_link_is_scored_in_its_own_frame_and_those_beyond_the_truth_hit_nothing(frame: int, recall: float) -> None:
    link = Link(1, (2, 5), (0, 0, 50, 50), 1.0, frame)
    caption = GroundedCaption("1", "a dog", ("a", "dog"), ((0, 1), (2, 5)), (link,))
    for example in (film((0,)), film((0, 7))):
        assert {s.name: s.value for s in evaluate([caption], [example]).scores}["recall_all"] == recall


def test_a_link_to_a_frame_before_the_first_is_refused() -> None:
    link = Link(1, (2, 5), (0, 0, 50, 50), 1.0, -1)
    caption = GroundedCaption("1", "a dog", ("a", "dog"), ((0, 1), (2, 5)), (link,))
    with pytest.raises(DataError, match="image '1': a link points to frame -1"):
        evaluate([caption], [film((0,))])


def test_captions_of_the_training_set_are_not_novel() -> None:
    captions, examples = corpus(video=False)
    found = evaluate(captions, examples, training=[captions[0].tokens], fields={"data": "x"})
    scores = {score.name: score for score in found.scores}
    same = sum(caption.tokens == captions[0].tokens for caption in captions)
    assert scores["novel"].value == pytest.approx(1 - same / 30)
    assert scores["vocabulary"].value == len({word for caption in captions for word in caption.tokens})
    assert "|n:30|data:x|v:" in scores["novel"].signature


def test_a_link_to_a_word_that_is_not_there_is_refused() -> None:
    captions, examples = corpus(video=False)
    broken = GroundedCaption("0", "a", ("a",), ((0, 1),), (Link(7, (0, 1), (0, 0, 1, 1), 1.0),))
    with pytest.raises(DataError, match="image '0': a link points to word 7 of 1"):
        evaluate([broken, *captions[1:]], examples)


def test_grounding_without_any_annotated_class_is_refused_and_texts_alone_are_scored() -> None:
    example = Example("1", "", (99, 99), (as_caption("a dog"),))
    with pytest.raises(DataError, match="grounding cannot be scored"):
        evaluate([caption("1", "a dog", {})], [example], metrics=())
    found = evaluate([caption("1", "a cat", {})], [example], links=False)
    texts = [*(f"BLEU-{k}" for k in range(1, 5)), "ROUGE-L", "CIDEr-D"]
    assert [score.name for score in found.scores] == [*texts, "distinct-1", "distinct-2", "vocabulary"]
    assert "errors" not in found.to_dict()
