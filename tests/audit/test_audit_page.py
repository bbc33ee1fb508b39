"""The page of an audit as a person uses it. Needs Chromium and its driver."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from groundling.audit import page
from groundling.audit.summary import summarise

EVIL = "</script><script>document.title='broken'</script>"


def phrase(text: str, start: int, verdict: str, p: float | None, **more: Any) -> dict[str, Any]:
    box = [10.0, 10.0, 60.0, 50.0]
    likely = [] if p is None else [{"box": box, "score": 0.8}, {"box": [70.0, 10.0, 90.0, 50.0], "score": 0.4}]
    about = {"phrase": text, "span": [start, start + len(text)], "noun": text, "lemma": text.split()[-1]}
    return about | {"verdict": verdict, "evidence": p, "box": None, "likely": likely, "class": "animals"} | more


def rows() -> list[dict[str, Any]]:
    good = [phrase("a dog", 0, "grounded", 0.4, box=[10.0, 10.0, 60.0, 50.0])]
    given = {"boxes": [[100.0, 50.0, 150.0, 90.0]], "points": [[5.0, 5.0]], "overlap": 0.0}
    bad = [phrase("a dog", 0, "wrong place", 0.8, given=given), phrase("a cat", 10, "not there", 0.1)]
    unknown = [phrase("a blorp", 0, "cannot tell", None, reason="never learned")]
    texts = ["a dog", "a dog and a cat", "a blorp"]
    return [
        {"row": i, "image": "one.png", "caption": text, "width": 160, "height": 100, "phrases": phrases}
        for i, (text, phrases) in enumerate(zip(texts, (good, bad, unknown), strict=True), start=1)
    ]


def written(folder: Path) -> Path:
    Image.new("RGB", (160, 100), "teal").save(folder / "one.png")
    summary = summarise(rows()).to_dict()
    page.write(folder / "page.html", page.worst(rows(), 10), summary, lambda name: folder / name, title="captions")
    return folder / "page.html"


def test_no_caption_can_break_out_of_its_place(tmp_path: Path) -> None:
    row = rows()[0] | {"caption": EVIL, "image": EVIL}
    page.write(tmp_path / "page.html", [row], summarise(rows()).to_dict(), None, title=EVIL)
    text = (tmp_path / "page.html").read_text()
    assert EVIL not in text and text.count("</script>") == 2


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--window-size=1200,900"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    yield driver
    driver.quit()


@pytest.mark.browser
@pytest.mark.skipif(not (shutil.which("chromium") and shutil.which("chromedriver")), reason="no Chromium here")
def test_the_worst_caption_is_first_and_a_phrase_shows_where_it_was_looked_for(chromium: Any, tmp_path: Path) -> None:
    from selenium.webdriver import Keys

    chromium.get(written(tmp_path).as_uri())

    def find(css: str) -> list[Any]:
        return list(chromium.find_elements("css selector", css))

    assert [card.get_attribute("data-row") for card in find("article")] == ["2", "1", "3"]
    first = find("article")[0]
    assert len(first.find_elements("css selector", "rect.given")) == 1  # the wrong place is drawn from the start
    doubtful = find(".word.doubtful")
    assert [word.get_attribute("aria-label") for word in doubtful] == ["a dog: grounded"]
    assert "evidence 40 %, doubtful" in find("article")[1].text and "doubtful" not in first.text
    body = chromium.find_element("css selector", "body")
    body.send_keys("j")
    assert len(first.find_elements("css selector", "rect.likely")) == 2
    assert len(first.find_elements("css selector", "rect.given")) == 1
    assert len(first.find_elements("css selector", "circle.given")) == 1
    assert "evidence 80 %" in first.text
    chromium.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert chromium.switch_to.active_element.text == "a cat"
    body.send_keys("4")  # cannot tell
    assert [card.get_attribute("data-row") for card in find("article")] == ["3"]
    body.send_keys("4")
    chromium.find_element("id", "find").send_keys("cat")
    assert [card.get_attribute("data-row") for card in find("article")] == ["2"]
    override = {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", override)
    assert chromium.execute_script("return document.documentElement.scrollWidth") <= 360
    chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
