"""The page as a person uses it: pointing, tapping, keys, a phone's width. Needs Chromium and its driver."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from clips import write_clip
from PIL import Image

from groundling.report import AnnotatedPhrase, Film, Item, Truth, write
from groundling.types import GroundedCaption, Link, WordAttention

BOX, OTHER = (10.0, 20.0, 60.0, 90.0), (50.0, 10.0, 150.0, 80.0)
EVIL = "</script><script>document.title='broken'</script>"


def grounded(id: str, score: float = 0.9) -> GroundedCaption:
    return GroundedCaption(
        id,
        "a dog and a ball",
        ("a", "dog", "and", "a", "ball"),
        ((0, 1), (2, 5), (6, 9), (10, 11), (12, 16)),
        (Link(1, (2, 5), BOX, score), Link(4, (12, 16), OTHER, 0.1)),
        (WordAttention(1, (BOX, OTHER), (0.8, 0.1)),),
        size=(160, 100),
    )


def items(n: int, systems: int = 1) -> list[Item]:
    def pictures() -> list[Image.Image]:
        return [Image.new("RGB", (160, 100), "teal")]

    truth = Truth(("the truth",), (AnnotatedPhrase("a dog", (BOX,)),))
    return [Item(f"id{i}", pictures, (grounded(f"id{i}"),) * systems, truth, {"cider": i}) for i in range(n)]


def clip(frames: int = 10) -> Item:
    """The dog is in frame 2 alone, the ball in all frames; the truth has the dog in frame 3."""
    everywhere = tuple(Link(4, (12, 16), OTHER, 0.08, frame) for frame in range(frames))
    links = (Link(1, (2, 5), BOX, 0.01, 2), *everywhere)
    look = WordAttention(1, (BOX, OTHER), (0.8, 0.1), (2, 5))
    caption = replace(grounded("clip"), links=links, attention=(look,), frames=frames)
    truth = Truth(("the truth",), (AnnotatedPhrase("a dog", (BOX,), (3,)),))
    return Item("clip", lambda: [Image.new("RGB", (160, 100), "teal")] * frames, (caption,), truth)


def test_the_page_is_one_file_without_outside_addresses(tmp_path: Path) -> None:
    write(tmp_path / "page.html", items(2), ["one"])
    text = (tmp_path / "page.html").read_text()
    assert "src=" not in text.split('id="data"')[0] and "data:image/webp" in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_a_film_is_named_as_the_page_finds_it(tmp_path: Path) -> None:
    film = Film(tmp_path / "clips" / "a b#1.mp4", (1.0, 2.5))
    (tmp_path / "pages").mkdir()
    write(tmp_path / "pages" / "page.html", [replace(clip(), film=film)], ["one"])
    text = (tmp_path / "pages" / "page.html").read_text()
    assert '"film":{"src":"../clips/a%20b%231.mp4","segment":[1.0,2.5]}' in text


def test_no_caption_can_break_out_of_its_place(tmp_path: Path) -> None:
    evil = GroundedCaption("x", EVIL, ("x",), ((0, len(EVIL)),), size=(160, 100))
    item = Item("x", lambda: [Image.new("RGB", (8, 8))], (evil,))
    write(tmp_path / "page.html", [item], ["one"], title=EVIL)
    text = (tmp_path / "page.html").read_text()
    assert EVIL not in text and text.count("</script>") == 2


pytestmark_browser = [
    pytest.mark.browser,
    pytest.mark.skipif(not (shutil.which("chromium") and shutil.which("chromedriver")), reason="no Chromium here"),
]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-first-run",
        "--window-size=1200,900",
    ):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    yield driver
    driver.quit()


class TestInABrowser:
    pytestmark = pytestmark_browser

    def open(self, chromium: Any, path: Path, *args: Any, **kwargs: Any) -> Any:
        write(path / "page.html", *args, **kwargs)
        chromium.get((path / "page.html").as_uri())
        return chromium

    def find(self, page: Any, css: str) -> list[Any]:
        return list(page.find_elements("css selector", css))

    def test_pointing_at_a_word_lights_its_box(self, chromium: Any, tmp_path: Path) -> None:
        from selenium.webdriver import ActionChains

        page = self.open(chromium, tmp_path, items(1), ["one"])
        assert len(self.find(page, "rect.box")) == 2 and not self.find(page, "rect.on")
        words = self.find(page, ".word")
        ActionChains(page).move_to_element(words[1]).perform()
        (lit,) = self.find(page, "rect.box.on")
        assert [lit.get_attribute(k) for k in ("x", "y", "width", "height")] == ["10", "20", "50", "70"]
        assert len(self.find(page, ".word.weak")) == 1  # the ball: evidence 0.1

    def test_of_two_equal_boxes_both_are_seen_and_the_one_pointed_at_is_as_it_was(
        self, chromium: Any, tmp_path: Path
    ) -> None:
        """160 pixels wide, so the second is 160 / 80 = 2 inside the first: from 12 on, 46 wide instead of 50."""
        caption = replace(grounded("id0"), links=(Link(1, (2, 5), BOX, 0.9), Link(4, (12, 16), BOX, 0.1)))
        page = self.open(chromium, tmp_path, [replace(items(1)[0], captions=(caption,))], ["one"])
        first, second = self.find(page, "rect.box")
        assert [first.get_attribute(name) for name in ("x", "width")] == ["10", "50"]
        assert [second.get_attribute(name) for name in ("x", "width")] == ["12", "46"]
        self.find(page, ".word.link")[1].send_keys("")  # focus lights it
        (lit,) = self.find(page, "rect.on")
        assert [lit.get_attribute(name) for name in ("x", "width")] == ["10", "50"]

    def test_a_word_that_may_be_made_up_is_marked_though_its_place_is_sure(self, chromium: Any, tmp_path: Path) -> None:
        dog, ball = grounded("x").links
        links = (replace(dog, evidence=0.3), replace(ball, evidence=0.8))
        item = replace(items(1)[0], captions=(replace(grounded("x"), links=links),))
        page = self.open(chromium, tmp_path, [item], ["one"], note="a note")
        (word,) = self.find(page, ".word.weak")
        assert word.text == "dog" and word.get_attribute("title").startswith("evidence 30 %: weak")
        assert len(self.find(page, "rect.weak")) == 1
        assert self.find(page, ".note")[0].text == "a note"

    def test_attention_and_truth_are_drawn_on_demand(self, chromium: Any, tmp_path: Path) -> None:
        page = self.open(chromium, tmp_path, items(1), ["one"])
        page.find_element("css selector", "body").send_keys("a")
        page.find_element("css selector", "body").send_keys("t")
        self.find(page, ".word")[1].click()
        assert len(self.find(page, "rect.attended")) == 2
        assert len(self.find(page, "rect.gold")) == 1
        assert "the truth" in self.find(page, ".refs")[0].text

    def test_keys_walk_from_image_to_image_and_word_to_word(self, chromium: Any, tmp_path: Path) -> None:
        from selenium.webdriver import Keys

        page = self.open(chromium, tmp_path, items(3), ["one"])
        body = page.find_element("css selector", "body")
        body.send_keys("j")
        body.send_keys("j")
        active = page.switch_to.active_element
        assert active.text == "dog"
        assert page.execute_script("return document.activeElement.closest('article').dataset.id") == "id1"
        active.send_keys(Keys.ARROW_RIGHT)
        assert page.switch_to.active_element.text == "and"

    def test_find_and_sort(self, chromium: Any, tmp_path: Path) -> None:
        from selenium.webdriver.support.ui import Select

        page = self.open(chromium, tmp_path, items(12), ["one"])
        Select(page.find_element("id", "sort")).select_by_visible_text("cider")
        assert self.find(page, "article")[0].get_attribute("data-id") == "id11"
        page.find_element("id", "find").send_keys("id7")
        assert [a.get_attribute("data-id") for a in self.find(page, "article")] == ["id7"]

    def test_a_clip_shows_its_frames_and_each_box_in_its_own(self, chromium: Any, tmp_path: Path) -> None:
        record = {
            "id": "clip",
            "label": "dog",
            "kind": "other_err",
            "predicted": [[None] * 4, BOX],
            "truth": [BOX],
            "frames": [3],
        }
        page = self.open(
            chromium, tmp_path, [clip(), *items(1)], ["one"], evaluation={"scores": [], "records": [record]}
        )
        for key in "at":
            page.find_element("css selector", "body").send_keys(key)
        self.find(page, ".clip .word")[1].click()
        frames = self.find(page, "#captions .clip .frame")
        assert len(frames) == 10

        def inside(kind: str) -> list[int]:
            return [len(frame.find_elements("css selector", f"rect.{kind}")) for frame in frames]

        assert inside("on") == [0, 0, 1, 0, 0, 0, 0, 0, 0, 0]
        assert inside("box") == [1, 1, 2, 1, 1, 1, 1, 1, 1, 1]
        assert inside("attended") == [0, 0, 1, 0, 0, 1, 0, 0, 0, 0]
        assert inside("gold") == [0, 0, 0, 1, 0, 0, 0, 0, 0, 0]
        assert inside("weak") == [0, 0, 1, 0, 0, 0, 0, 0, 0, 0]  # ten frames share the evidence of a word
        self.find(page, "nav button")[1].click()
        wrong = self.find(page, ".errors .frame")
        assert [len(frame.find_elements("css selector", "rect")) for frame in wrong] == [0, 1, 0, 1, 0, 0, 0, 0, 0, 0]

    def test_a_clip_plays_frame_by_frame_in_one_place_and_stops(self, chromium: Any, tmp_path: Path) -> None:
        page = self.open(chromium, tmp_path, [clip(), *items(1)], ["one"])
        button = page.find_element("css selector", ".clip .play")
        assert len(self.find(page, ".play")) == 1  # a picture has none
        button.click()

        def shown() -> list[int]:
            seen = "[...document.querySelectorAll('.clip .frame')].map((frame, i) => frame.offsetParent ? i : -1)"
            return [number for number in page.execute_script(f"return {seen}") if number >= 0]

        seen: set[int] = set()
        patience = time.monotonic() + 30
        while len(seen) < 3 and time.monotonic() < patience:
            (now,) = shown()
            seen.add(now)
        assert len(seen) == 3
        button.click()
        assert shown() == list(range(10))

    def test_the_film_of_a_clip_is_played_under_boxes_that_move(self, chromium: Any, tmp_path: Path) -> None:
        film = Film(write_clip(tmp_path / "a b.webm", frames=24, size=(160, 100), rate=8, codec="libvpx"))
        ball = tuple(Link(4, (12, 16), (100.0 * f, 0.0, 100.0 * f + 10, 10.0), 0.3, f) for f in (0, 1))
        dog = Link(1, (2, 5), BOX, 0.3, 2)
        caption = replace(grounded("clip"), links=(*ball, dog), attention=(), frames=3)
        item = replace(clip(3), captions=(caption,), film=film)
        page = self.open(chromium, tmp_path, [item], ["one"])
        page.find_element("css selector", ".play").click()
        places: set[float] = set()
        patience = time.monotonic() + 30
        while len(places) < 4 and time.monotonic() < patience:
            boxes = "[...document.querySelectorAll('.film rect.box')].map((r) => [r.x, r.width])"
            found = page.execute_script(f"return {boxes}.map((pair) => pair.map((side) => side.baseVal.value))")
            places |= {x for x, width in found if width == 10}
        assert len(places) >= 4 and min(places) >= 0 and max(places) <= 100  # on the way from frame 0 to frame 1
        assert page.execute_script("return document.querySelector('video').videoWidth") == 160
        page.find_element("css selector", ".play").click()
        assert not self.find(page, "video") and len(self.find(page, ".clip .frame")) == 3

    def test_boxes_between_two_frames(self, chromium: Any, tmp_path: Path) -> None:
        page = self.open(chromium, tmp_path, [clip()], ["one"])
        track = "tracks([[0, 0, 4, 4], [8, 4, 12, 8]], [0, 1])[0]"
        code = f"return [-0.5, 0, 0.25, 1, 1.4, 1.6].map((at) => between({track}, at) ?? null)"
        assert page.execute_script(code) == [[0, 0, 4, 4]] * 2 + [[2, 1, 6, 5], *[[8, 4, 12, 8]] * 2, None]

    def test_a_film_that_cannot_be_played_is_shown_by_its_frames(self, chromium: Any, tmp_path: Path) -> None:
        page = self.open(chromium, tmp_path, [replace(clip(), film=Film(tmp_path / "gone.mp4"))], ["one"])
        page.find_element("css selector", ".play").click()
        patience = time.monotonic() + 30
        while len(self.find(page, ".frame.now:not(.film)")) != 1 and time.monotonic() < patience:
            pass
        assert len(self.find(page, ".frame.now")) == 1 and not self.find(page, "video")

    def test_two_systems_stand_side_by_side(self, chromium: Any, tmp_path: Path) -> None:
        page = self.open(chromium, tmp_path, items(1, systems=2), ["plain", "grounded"])
        assert [s.text for s in self.find(page, ".system")] == ["plain", "grounded"]

    def test_a_thousand_images_open_at_once_and_fit_a_phone(self, chromium: Any, tmp_path: Path) -> None:
        page = self.open(chromium, tmp_path, items(1000), ["one"])
        assert len(self.find(page, "article")) < 1000  # drawn as one scrolls
        assert page.find_element("id", "count").text == "1000 of 1000 images"
        page.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True},
        )
        try:
            wide = page.execute_script("return document.documentElement.scrollWidth")
            assert wide <= 360
        finally:
            page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    def test_an_error_leads_to_its_image(self, chromium: Any, tmp_path: Path) -> None:
        score = {"precision": [1, 2], "recall": [1, 4], "f1": 0.33}
        record = {
            "id": "id1",
            "label": "dog",
            "kind": "part_grd",
            "shape": "partial",
            "predicted": [BOX],
            "truth": [OTHER],
        }
        evaluation = {
            "scores": [{"name": "F1_all", "value": 0.25, "n": 2, "signature": "f1_all|iou:.5"}],
            "per_class": {"dog": {"all": score, "loc": score}},
            "by_frequency": [{"classes": ["dog"], "frequency": 7.0, "f1_all": 0.3, "f1_loc": 0.4}],
            "records": [record],
        }
        page = self.open(chromium, tmp_path, items(3), ["one"], evaluation=evaluation)
        self.find(page, "nav button")[1].click()
        section = page.find_element("id", "evaluation")
        assert (
            "F1_all" in section.text
            and "f1_all|iou:.5" in section.text
            and "only a part of it, partial" in section.text
        )
        assert len(self.find(page, ".errors rect")) == 2
        self.find(page, ".errors .word")[0].click()
        assert [a.get_attribute("data-id") for a in self.find(page, "#captions article")] == ["id1"]
