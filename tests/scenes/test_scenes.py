"""Drawn scenes: the same seed the same bytes, captions of what is there, boxes around it."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pytest

from groundling.cli import main
from groundling.data.dataset import load
from groundling.errors import GroundlingError
from groundling.regions.sources import source
from groundling.scenes.draw import draw
from groundling.scenes.events import sample
from groundling.scenes.grammar import TYPES, CaptionGrammar, article, captions, length, text
from groundling.scenes.recall import recall
from groundling.scenes.world import PEOPLE, Fact, World, pick
from groundling.scenes.write import DrawnScene, markup, scene, split_sizes, write

SOME = 60


@pytest.fixture(scope="module")
def scenes() -> list[DrawnScene]:
    return [scene(3, number) for number in range(SOME)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("drawn") / "scenes"
    for _ in write(out, 10, seed=5, fractions=(0.6, 0.2, 0.2)):
        pass
    return out


def digest(out: Path) -> dict[str, str]:
    files = sorted(path for path in out.rglob("*") if path.is_file())
    return {str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


# ---------------------------------------------------------------- same seed, same bytes


def test_two_workers_write_the_bytes_of_one(folder: Path, tmp_path: Path) -> None:
    for _ in write(tmp_path, 10, seed=5, fractions=(0.6, 0.2, 0.2), workers=2):
        pass
    assert digest(tmp_path) == digest(folder)


def test_another_seed_draws_other_scenes() -> None:
    first, again, other = scene(1, 0), scene(1, 0), scene(2, 0)
    assert first.picture.image.tobytes() == again.picture.image.tobytes() != other.picture.image.tobytes()
    assert first.captions == again.captions != other.captions


def test_a_scene_does_not_depend_on_how_many_there_are(folder: Path) -> None:
    assert (folder / "Sentences" / "000007.txt").read_text() == markup(scene(5, 7), 7)[0]


# ---------------------------------------------------------------- boxes are where things are


def test_boxes_are_inside_the_picture_and_not_inverted(scenes: list[DrawnScene]) -> None:
    for made in scenes:
        wide, high = made.picture.image.size
        for left, top, right, bottom in filter(None, made.picture.boxes):
            assert 0 <= left < right <= wide
            assert 0 <= top < bottom <= high


def test_taking_an_item_away_changes_pixels_in_its_box_and_none_outside() -> None:
    """Items that own nobody else's shapes are taken away one by one; strings and leashes are nobody's."""
    for number in range(12):
        world = scene(4, number).world
        before = draw(world, "light")
        for index, item in enumerate(world.items):
            box = before.boxes[index]
            if box is None or item.wearer >= 0 or item.name in ("leash", "water", "balloon", "kite", *PEOPLE):
                continue
            far = replace(item, x=item.x + 10_000)
            after = draw(replace(world, items=(*world.items[:index], far, *world.items[index + 1 :])), "light")
            changed = (np.asarray(before.image) != np.asarray(after.image)).any(-1)
            left, top, right, bottom = box
            assert changed[top:bottom, left:right].mean() > 0.1, item.name
            changed[max(0, top - 2) : bottom + 2, max(0, left - 2) : right + 2] = False
            assert not changed.any(), item.name


def test_the_box_of_a_person_holds_head_and_clothes(scenes: list[DrawnScene]) -> None:
    checked = 0
    for made in scenes:
        for index, item in enumerate(made.world.items):
            box, whole = made.picture.boxes[index], made.picture.boxes[item.wearer] if item.wearer >= 0 else None
            if box and whole:
                assert whole[0] <= box[0] and whole[1] <= box[1] and whole[2] >= box[2] and whole[3] >= box[3]
                checked += 1
    assert checked > 20


def test_what_is_hidden_has_no_box() -> None:
    world = next(w for w in (sample(Random(str(i))) for i in range(99)) if "house" in [x.name for x in w.items])
    house = next(item for item in world.items if item.name == "house")
    mouse = replace(house, name="ball", size=0.3, layer=house.layer - 1, y=house.y - 5)
    picture = draw(World(world.place, (mouse, house), ()), "light")
    assert picture.boxes[0] is None and picture.boxes[1] is not None


def test_a_larger_picture_has_the_same_boxes_larger() -> None:
    world = scene(3, 1).world
    small, large = draw(world, "light", 256), draw(world, "light", 512)
    assert large.image.size == (512, 384)
    for a, b in zip(small.boxes, large.boxes, strict=True):
        if a and b:
            np.testing.assert_allclose(np.array(a) * 2, b, atol=5)


# ---------------------------------------------------------------- captions


def test_captions_of_a_scene_differ_and_have_six_to_sixteen_words(scenes: list[DrawnScene]) -> None:
    for made in scenes:
        texts = [text(caption) for caption in made.captions]
        assert len(texts) == len(set(texts)) == 5
        assert all(6 <= length(caption) <= 16 for caption in made.captions)


def test_every_caption_tells_the_first_fact(scenes: list[DrawnScene]) -> None:
    for made in scenes:
        fact = made.world.facts[0]
        for caption in made.captions:
            mentioned = [piece.items for piece in caption if piece.type]
            assert fact.subjects in mentioned
            assert fact.thing < 0 or (fact.thing,) in mentioned


def test_captions_name_only_what_can_be_seen(scenes: list[DrawnScene]) -> None:
    for made in scenes:
        for piece in (piece for caption in made.captions for piece in caption):
            assert all(made.picture.boxes[i] for i in piece.items)
            assert all(TYPES.get(made.world.items[i].name, "other") == piece.type for i in piece.items)


def test_a_number_has_as_many_boxes(scenes: list[DrawnScene]) -> None:
    numbers = {"two": 2, "three": 3}
    phrases = [p for made in scenes for c in made.captions for p in c if p.words.split()[0] in numbers]
    assert phrases
    assert all(numbers[p.words.split()[0]] == len(p.items) for p in phrases)


def test_colours_of_captions_are_colours_drawn(scenes: list[DrawnScene]) -> None:
    for made in scenes:
        for piece in (piece for caption in made.captions for piece in caption if piece.items):
            for other in {item.colour for item in made.world.items} - {made.world.items[i].colour for i in piece.items}:
                assert other not in piece.words.split()


def test_two_men_are_men() -> None:
    """Irregular plurals, and one entity for both."""
    world = next(w for w in (sample(Random(str(i))) for i in range(999)) if w.items[0].name == "man")
    pair = World("park", (world.items[0], world.items[0]), (Fact((0, 1), "walk"),))
    piece = CaptionGrammar(pair, frozenset((0, 1)), Random(0)).thing((0, 1), coloured=0.0)
    assert piece.words in ("two men", "two guys", "two people") and piece.items == (0, 1)


@pytest.mark.parametrize(("noun", "phrase"), [("umbrella", "an umbrella"), ("red umbrella", "a red umbrella")])
def test_articles(noun: str, phrase: str) -> None:
    assert article(noun) == phrase


def test_classes_are_long_tailed() -> None:
    """The ten most frequent of at least 40 classes are most of what there is, the rarest half hardly anything."""
    rng = Random(0)
    counts = Counter(item.name for _ in range(3000) for item in sample(rng).items)
    often = [n for _, n in counts.most_common()]
    assert 40 <= len(often) <= 65
    assert sum(often[:10]) > 0.5 * sum(often)
    assert sum(often[len(often) // 2 :]) < 0.12 * sum(often)
    assert often[-1] < often[0] / 100


def test_a_few_hundred_words_are_enough() -> None:
    rng, words = Random(0), Counter[str]()
    for _ in range(800):
        world = sample(rng)
        for caption in captions(world, range(len(world.items)), rng):
            words.update(text(caption).split())
    assert 150 <= len(words) <= 300
    assert {"man", "guy", "person", "two", "men", "riding", "rides", "behind", "beach"} <= set(words)


def test_some_things_come_together() -> None:
    """A rider of a bicycle usually has a helmet, and nobody else usually has one."""
    rng, riders, walkers = Random(0), [], []
    for _ in range(3000):
        world = sample(rng)
        names, verb = [item.name for item in world.items], world.facts[0].verb
        if verb == "ride" and "bicycle" in names:
            riders.append("helmet" in names)
        elif verb == "walk":
            walkers.append("helmet" in names)
    assert np.mean(riders) > 0.6 > 0.1 > np.mean(walkers)


def test_pick_follows_the_weights() -> None:
    rng = Random(0)
    drawn = Counter(pick(rng, {"often": 3.0, "seldom": 1.0, "never": 0.0}) for _ in range(4000))
    assert abs(drawn["often"] / 4000 - 0.75) < 0.03 and drawn["never"] == 0


# ---------------------------------------------------------------- files


def test_marks_can_be_read_back(scenes: list[DrawnScene]) -> None:
    """Without its marks a line is the caption; entities with boxes are in the annotation."""
    for number, made in enumerate(scenes):
        sentences, annotation = markup(made, number)
        lines = sentences.splitlines()
        for line, caption in zip(lines, made.captions, strict=True):
            plain = re.sub(r"\[/EN#\d+(?:/\w+)+ ([^\]]+)\]", r"\1", line)
            assert plain.lower() == text(caption) + " ." and plain[0].isupper()
        entities = set(re.findall(r"EN#(\d+)", sentences)) - {"0"}
        assert entities == set(re.findall(r"<name>(\d+)</name>", annotation))


def test_the_reader_of_flickr30k_entities_reads_scenes(folder: Path) -> None:
    data = load(folder, annotated=False)
    assert [len(data.split(name)) for name in ("train", "val", "test")] == [6, 2, 2]
    example, made = data.by_id["000003"], scene(5, 3)
    assert example.size == (256, 192) and len(example.captions) == 5
    boxes = {tuple(map(float, box)) for box in made.picture.boxes if box}
    read = {box for phrase in example.gold for box in phrase.boxes}
    assert read and read <= boxes


def test_splits_are_disjoint_and_leave_nothing_out() -> None:
    for images, fractions in ((1, (0.8, 0.1, 0.1)), (7, (0.5, 0.25, 0.25)), (1000, (0.8, 0.1, 0.1)), (3, (1, 0, 0))):
        assert sum(split_sizes(images, fractions)) == images
    assert split_sizes(2000, (0.8, 0.1, 0.1)) == (1600, 200, 200)


@pytest.mark.parametrize("fractions", [(0.5, 0.1, 0.1), (1.2, -0.1, -0.1), (0.9, 0.2, 0.1)])
def test_fractions_that_are_none_are_refused(fractions: tuple[float, float, float]) -> None:
    with pytest.raises(GroundlingError, match="sum to 1"):
        split_sizes(100, fractions)


# ---------------------------------------------------------------- whole


def test_the_command_writes_scenes_and_tells_the_recall(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [str(tmp_path / "out"), "--images", "10", "--workers", "1", "--splits", "0.5", "0.3", "0.2", "--recall"]
    assert main(["scenes", *arguments]) == 0
    printed = capsys.readouterr().out
    assert "10 scenes" in printed and re.search(r"val: recall@0\.5 = [01]\.\d+ \(n = \d+ boxes of 3 images", printed)
    assert len(list((tmp_path / "out" / "images").glob("*.png"))) == 10
    lists = [(tmp_path / "out" / f"{name}.txt").read_text().split() for name in ("train", "val", "test")]
    assert [len(ids) for ids in lists] == [5, 3, 2]
    assert all(not set(a) & set(b) for a, b in pairwise(lists))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--images", "0"], "--images"),
        (["--size", "250"], "--size"),
        (["--size", "8"], "--size"),
        (["--workers", "0"], "--workers"),
        (["--splits", "0.5", "0.5", "0.5"], "sum to 1"),
        (["--images", "2", "--recall"], "no image"),
    ],
)
def test_silly_arguments_are_named_and_nothing_is_written(
    arguments: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["scenes", str(tmp_path / "out"), *arguments]) == 2
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_with_something_in_it_is_not_overwritten(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = digest(folder)
    assert main(["scenes", str(folder), "--images", "3"]) == 2
    assert "empty" in capsys.readouterr().err
    assert digest(folder) == before


def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["scenes", str(tmp_path / "file" / "out"), "--images", "1", "--workers", "1"]) == 2
    assert "cannot write to" in capsys.readouterr().err


def test_recall_counts_boxes_once(folder: Path) -> None:
    data = load(folder, "val", annotated=False)
    measured = recall(source("scenes"), data)
    boxes = {(phrase.entity, box) for example in data for phrase in example.gold for box in phrase.boxes}
    assert measured.boxes == len(boxes) and measured.images == 2
    assert recall(source("scenes"), data, threshold=1.0).found == 0
