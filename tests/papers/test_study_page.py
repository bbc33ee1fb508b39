"""The rating page as a rater uses it. Needs Chromium and its driver."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from groundling.papers.study import Sheet, compare, write
from groundling.papers.study.answers import SAME, evaluate, read
from groundling.types import GroundedCaption, Link

EVIL = "</script><script>document.title='broken'</script>"
BOXES = ((5.0, 5.0, 25.0, 25.0), (30.0, 20.0, 60.0, 44.0))  # of system 0, of system 1


def captioned(id: str, system: int, text: str = "a dog") -> GroundedCaption:
    links = (Link(1, (2, 5), BOXES[system], 0.9),)
    return GroundedCaption(id, text, ("a", "dog"), ((0, 1), (2, 5)), links, size=(64, 48), media="secret-name.png")


def page(path: Path, images: int = 4, text: str = "a dog") -> list[Sheet]:
    first, second = ({f"i{n}": captioned(f"i{n}", system, text) for n in range(images)} for system in (0, 1))
    sheets = compare(first, second, images, seed=0)
    pictures = [Image.new("RGB", (64, 48), "teal")]
    write(path, sheets, lambda sheet: pictures, ("plain", "ours"), seed=0)
    return sheets


def test_the_page_is_one_file_and_no_caption_breaks_out_of_its_place(tmp_path: Path) -> None:
    page(tmp_path / "study.html", text=EVIL)
    text = (tmp_path / "study.html").read_text()
    assert EVIL not in text and text.count("</script>") == 2
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert text.count("data:image/webp") == 4


pytestmark_browser = [
    pytest.mark.browser,
    pytest.mark.skipif(not (shutil.which("chromium") and shutil.which("chromedriver")), reason="no Chromium here"),
]


@pytest.fixture(scope="module")
def downloads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="module")
def chromium(downloads: Path) -> Iterator[Any]:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
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

    def find(self, page: Any, css: str) -> list[Any]:
        return list(page.find_elements("css selector", css))

    def begin(self, page: Any, name: str, number: int) -> Any:
        from selenium.webdriver.support.ui import Select

        page.find_element("id", "name").send_keys(name)
        Select(page.find_element("id", "number")).select_by_index(number)
        self.find(page, "#enter button")[0].click()
        return page.find_element("css selector", "body")

    def count(self, page: Any) -> str:
        return str(page.find_element("id", "count").text)

    def again(self, page: Any, address: str) -> Any:
        """Its body, loaded anew until it shows answers: the browser writes them a moment after they were given."""
        for _ in range(50):
            page.get(address)
            if self.count(page):
                break
            time.sleep(0.2)
        return page.find_element("css selector", "body")

    def saved(self, page: Any, downloads: Path, name: str) -> Path:
        page.find_element("id", "save").click()
        for _ in range(200):
            found = [file for file in downloads.glob(f"answers-{name}-*.json") if file.stat().st_size]  # it is written
            if found:
                json.loads(found[0].read_text())
                return found[0]
            time.sleep(0.05)
        raise AssertionError("nothing was saved")

    def test_two_raters_answer_and_their_answers_are_counted(
        self, chromium: Any, downloads: Path, tmp_path: Path
    ) -> None:
        """Ann always prefers our system, by what she sees; Bob finds the first word the same, and else agrees."""
        from selenium.webdriver import Keys

        sheets = page(tmp_path / "study.html")
        address = (tmp_path / "study.html").as_uri()
        chromium.get(address)
        body = self.begin(chromium, "Ann", 0)
        assert "plain" not in body.text and "ours" not in body.text  # who is who stays hidden
        for i, sheet in enumerate(sheets):
            if i == 2:  # what was answered is there after a reload
                body = self.again(chromium, address)
                assert self.count(chromium) == "2 of 4 words"
            drawn = [rect.get_attribute("x") for rect in self.find(chromium, "rect.over")]
            assert drawn == [str(int(BOXES[sheet.left][0])), str(int(BOXES[1 - sheet.left][0]))]
            body.send_keys(Keys.ARROW_LEFT if sheet.left == 1 else "3")
        assert chromium.find_element("id", "end").is_displayed()
        ann = self.saved(chromium, downloads, "Ann")

        chromium.find_element("id", "change").click()
        body = self.begin(chromium, "Bob", 1)
        assert self.count(chromium) == "0 of 4 words"
        body.send_keys("1")
        body.send_keys(Keys.BACKSPACE)  # a slip, taken back
        self.find(chromium, "#choices button")[1].click()
        for sheet in sheets[1:]:
            body.send_keys("1" if sheet.left == 1 else Keys.ARROW_RIGHT)
        assert self.count(chromium) == "4 of 4 words"
        raters = [read(path) for path in (ann, self.saved(chromium, downloads, "Bob"))]
        assert list(raters[0].of.values()) == [1, 1, 1, 1] and list(raters[1].of.values()) == [SAME, 1, 1, 1]
        found = {one.name: one.score().value for one in evaluate(raters)}
        assert found["ours is better"] == 7 / 8 and found["same rating"] == 3 / 4

    def test_a_phone_shows_both_sides(self, chromium: Any, tmp_path: Path) -> None:
        page(tmp_path / "study.html", images=1)
        chromium.get((tmp_path / "study.html").as_uri())
        self.begin(chromium, "Cleo", 0)
        size = {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True}
        chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        try:
            assert chromium.execute_script("return document.documentElement.scrollWidth") <= 360
            assert all(side.size["width"] > 150 for side in self.find(chromium, "#sides section"))
        finally:
            chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
