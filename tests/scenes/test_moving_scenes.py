"""Scenes that move: deterministic, with true captions, read as ActivityNet-Entities."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from groundling.cli import main
from groundling.data.dataset import load
from groundling.regions.sources import source
from groundling.scenes.events import sample
from groundling.scenes.moving import INTO, OUT, Clip, Move, clip, example, moved, movements, write
from groundling.scenes.world import Item, World
from groundling.video import frames

SMALL = 96  # pixels wide: the same worlds, drawn quickly


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("moving")
    assert list(write(out, 6, 3, seed=5, width=SMALL, fractions=(0.5, 0.17, 0.33))) == [
        f"v_{i:06d}_segment_00" for i in range(6)
    ]
    return out


@pytest.fixture(scope="module")
def clips() -> list[Clip]:
    return [clip(1, number, 4, SMALL) for number in range(8)]


def test_a_move_is_a_straight_line_and_a_hop_a_curve() -> None:
    ball = Item("ball", 10.0, 20.0, 1.0, "red", (200, 0, 0), 1.0)
    world = World("park", (ball, ball), ())
    [halfway, still] = moved(world, [Move(frozenset({0}), (-8.0, 8.0), (0.0, -4.0))], 0.75).items
    assert (halfway.x, halfway.y) == (14.0, 17.0) and still is ball
    [top] = moved(World("park", (ball,), ()), [Move(frozenset({0}), hop=6.0)], 0.5).items
    assert top.y == pytest.approx(14.0)


def test_who_comes_is_outside_first_and_who_leaves_is_outside_last() -> None:
    rng, seen = Random(3), set()
    for _ in range(150):
        world = sample(rng)
        moves, how = movements(world, rng)
        if how in (INTO, OUT):
            seen.add(how)
            outside = moved(world, moves, 0.0 if how == INTO else 1.0)
            inside = moved(world, moves, 1.0 if how == INTO else 0.0)
            for i in world.facts[0].subjects:
                assert not 0 < outside.items[i].x < 256
                if moves[0].items >= {i} and len(moves) == 1:
                    assert inside.items[i].x == world.items[i].x
    assert seen == {INTO, OUT}


def test_clothes_go_with_their_wearer() -> None:
    rng = Random(4)
    for _ in range(60):
        world = sample(rng)
        for move in movements(world, rng)[0]:
            for i, item in enumerate(world.items):
                assert (item.wearer in move.items) <= (i in move.items)


def test_the_same_numbers_give_the_same_clip_and_others_another(clips: list[Clip]) -> None:
    again = clip(1, 0, 4, SMALL)
    assert [p.image.tobytes() for p in again.pictures] == [p.image.tobytes() for p in clips[0].pictures]
    assert again.caption == clips[0].caption
    assert len({text for one in clips for text in [" ".join(piece.words for piece in one.caption)]}) > 4


def test_something_moves_in_most_clips(clips: list[Clip]) -> None:
    moving = [len({picture.boxes for picture in one.pictures}) > 1 for one in clips]
    assert sum(moving) > len(clips) / 2


def test_every_phrase_has_the_boxes_of_its_things_in_each_frame_where_they_are_seen(clips: list[Clip]) -> None:
    for number, one in enumerate(clips):
        drawn = example(one, number)
        assert drawn.gold and drawn.captions[0].tokens[0] == drawn.captions[0].text.split()[0].lower()
        things = [piece for piece in one.caption if any(p.boxes[i] for p in one.pictures for i in piece.items)]
        assert len(things) == len(drawn.gold)
        for piece, phrase in zip(things, drawn.gold, strict=True):
            words = drawn.captions[0].tokens[slice(*phrase.span)]
            assert " ".join(words).lower() == piece.words.lower() and phrase.head == phrase.span[1] - 1
            expected = [(b, f) for f, p in enumerate(one.pictures) for i in piece.items if (b := p.boxes[i])]
            assert list(zip(phrase.boxes, phrase.frames, strict=True)) == expected


def test_the_reader_of_activitynet_entities_reads_them_all_again(drawn: Path) -> None:
    data = load(drawn, annotated=False)
    assert data.format == "ActivityNet-Entities"
    assert [e.split for e in data] == ["train"] * 3 + ["val"] + ["test"] * 2
    for number, read in enumerate(data):
        made = example(clip(5, number, 3, SMALL), number)
        assert (read.id, read.captions, read.size, read.segment) == (made.id, made.captions, made.size, made.segment)
        truth = {(p.head, p.label, box, f) for p in made.gold for box, f in zip(p.boxes, p.frames, strict=True)}
        assert truth == {(p.head, p.label, box, f) for p in read.gold for box, f in zip(p.boxes, p.frames, strict=True)}
        assert [frame.size for frame in frames(read.media)] == [made.size] * 3


def test_the_bytes_do_not_depend_on_the_number_of_workers(drawn: Path, tmp_path: Path) -> None:
    for _ in write(tmp_path, 6, 3, seed=5, width=SMALL, fractions=(0.5, 0.17, 0.33), workers=2):
        pass
    files = sorted(f.relative_to(drawn) for f in drawn.rglob("*") if f.is_file() and ".groundling" not in f.parts)
    assert len(files) == 6 * 3 + 3
    assert all((tmp_path / file).read_bytes() == (drawn / file).read_bytes() for file in files)


def test_recall_counts_the_frames_of_a_clip_as_images(drawn: Path) -> None:
    from groundling.scenes.recall import recall

    data = load(drawn, annotated=False)
    result = recall(source("scenes"), data.examples[:2])
    annotated = [(p.boxes, p.frames) for e in data.examples[:2] for p in e.gold]
    assert result.images == 6 and 0 < result.found <= result.boxes <= sum(len(boxes) for boxes, _ in annotated)


@pytest.mark.parametrize("words", [["--frames", "5"], ["--video", "--frames", "1"], ["--video", "--frames", "11"]])
def test_frames_need_a_video_and_have_bounds(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["scenes", str(tmp_path / "x"), *words]) == 2
    assert "needs --video, and 2 to 10 frames" in capsys.readouterr().err
