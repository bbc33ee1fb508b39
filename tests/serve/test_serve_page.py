"""The page as a person uses it, on a real server. Needs Chromium and its driver."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import av
import pytest
from PIL import Image
from server_process import PHOTOS, Running

from groundling.serve.app import PAGE
from groundling.types import DOUBTED

pytestmark_browser = [
    pytest.mark.browser,
    pytest.mark.skipif(not (shutil.which("chromium") and shutil.which("chromedriver")), reason="no Chromium here"),
]


def test_the_page_asks_nobody_else(server: Running) -> None:
    """No address of another machine in any file, and a policy under which the browser would refuse one."""
    for name in PAGE:
        response = server.call("GET", "/" if name == "index.html" else f"/{name}")
        assert response.status == 200
        assert b"http" not in response.body.replace(b"http://www.w3.org/2000/svg", b"").replace(b"http-equiv", b"")
        assert "default-src 'none'" in response.headers["content-security-policy"]


def test_the_page_names_the_evidence_below_which_a_noun_is_marked(server: Running) -> None:
    assert f"Below {100 * DOUBTED:.0f} % it is marked".encode() in server.call("GET", "/").body


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-first-run",
        "--window-size=1300,950",
    ):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    yield driver
    driver.quit()


def clip_of_photos(path: Path) -> Path:
    """Two seconds of the cat, then two of the astronaut."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libvpx", rate=4)
        stream.width, stream.height, stream.pix_fmt = 320, 240, "yuv420p"
        for name in ("cat.jpg", "astronaut.jpg"):
            with Image.open(PHOTOS / name) as photo:
                picture = photo.convert("RGB").resize((320, 240))
            for _ in range(8):
                container.mux(stream.encode(av.VideoFrame.from_image(picture)))
        container.mux(stream.encode())
    return path


class Person:
    """What a person sees and does."""

    def __init__(self, browser: Any, server: Running) -> None:
        self.browser = browser
        browser.get_log("browser")  # messages of earlier tests
        browser.get(server.url + "/")
        self.until(lambda: self.all("#examples button"))

    def all(self, css: str) -> list[Any]:
        return list(self.browser.find_elements("css selector", css))

    def one(self, css: str) -> Any:
        return self.browser.find_element("css selector", css)

    def until(self, there: Callable[[], Any]) -> Any:
        """Wait for it; an element that the page draws anew meanwhile is searched again."""
        from selenium.common.exceptions import StaleElementReferenceException
        from selenium.webdriver.support.ui import WebDriverWait

        wait = WebDriverWait(self.browser, 250, ignored_exceptions=[StaleElementReferenceException])
        return wait.until(lambda _: there())

    def choose_a_photo(self, name: str = "astronaut.jpg") -> None:
        self.one("#file").send_keys(str(PHOTOS / name))
        self.until(lambda: self.all("#caption .word"))

    def quiet(self) -> bool:
        """Nothing went wrong that the browser would tell a developer."""
        return [row for row in self.browser.get_log("browser") if row["level"] == "SEVERE"] == []


BOXES = """// their sides, at one moment: the page may draw them anew
return Array.from(document.querySelectorAll("#stage rect.box"), (box) =>
  Object.fromEntries(["x", "y", "width", "height"].map((side) => [side, Number(box.getAttribute(side))])));
"""
FAINT = """
const light = (c) => c.map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0.05);
const numbers = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
const behind = (node) => {
    for (; node; node = node.parentElement) {
        const colour = numbers(getComputedStyle(node).backgroundColor);
        if (colour.length === 3 || colour[3] === 1) return colour.slice(0, 3);
    }
    return [255, 255, 255]; };
const hasText = (node) => node.offsetParent && [...node.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
return [...document.querySelectorAll("body *")].filter(hasText).map((node) => {
    const colours = [numbers(getComputedStyle(node).color).slice(0, 3), behind(node)];
    const [low, high] = colours.map(light).sort((a, b) => a - b);
    return [node.textContent.trim(), high / low]; }).filter(([, contrast]) => contrast < 4.5);"""


class TestInABrowser:
    pytestmark = pytestmark_browser

    def test_a_photo_gets_a_caption_whose_nouns_light_their_boxes(self, chromium: Any, server: Running) -> None:
        from selenium.webdriver import ActionChains

        person = Person(chromium, server)
        person.all("#examples button")[1].click()
        person.until(lambda: person.all("#caption .word"))
        words = person.all("#caption .word")
        assert len(person.all("#stage rect.box")) >= len(words) and not person.all("#stage rect.on")
        ActionChains(chromium).move_to_element(words[0]).perform()
        assert len(person.all("#stage rect.on")) == 1
        assert "%" in words[0].get_attribute("title") and "%" in person.one("#nouns li").text
        assert person.quiet()

    def test_a_sentence_is_found_or_not_there_and_compared(self, chromium: Any, server: Running) -> None:
        person = Person(chromium, server)
        person.choose_a_photo("cat.jpg")
        person.one("#sentence").send_keys("a cat beside a train")
        person.one("#compare").click()
        person.until(lambda: person.all("#found table"))
        notes = [line.text for line in person.all("#found .bars li")]
        assert "found" in notes[0] and "not there" in notes[1]
        assert "1 of 2" in person.one("#found table").text and "the caption" in person.one("#found table").text
        assert "Both name: cat" in person.one("#found").text and "Only you name: train" in person.one("#found").text
        assert len(person.all("#stage rect.box")) == 1  # what is not there gets no box

    def test_two_names_of_one_thing_have_boxes_apart(self, chromium: Any, server: Running) -> None:
        person = Person(chromium, server)
        person.choose_a_photo("cat.jpg")
        person.one("#sentence").send_keys("a cat, a kitten")
        person.one("#ground .primary").click()
        outer, inner = person.until(lambda: len(drawn := chromium.execute_script(BOXES)) == 2 and drawn)
        for side, sign in (("x", 1), ("y", 1), ("width", -1), ("height", -1)):
            assert sign * (inner[side] - outer[side]) > 0

    def test_every_control_has_a_name_and_every_text_can_be_read(self, chromium: Any, server: Running) -> None:
        """As a screen reader is told it; and WCAG's contrast of 4.5, light and dark."""
        person = Person(chromium, server)
        person.choose_a_photo("cat.jpg")
        person.one("#sentence").send_keys("a cat beside a train\n")
        person.until(lambda: person.all("#found .bars li"))
        nodes = chromium.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        shown = [node for node in nodes if not node["ignored"] and node["role"]["value"] != "RootWebArea"]
        controls = [n for n in shown if any(p["name"] == "focusable" for p in n.get("properties", ()))]
        assert len(controls) > 15
        assert [node["role"]["value"] for node in controls if not node["name"]["value"]] == []
        for _ in range(2):
            assert chromium.execute_script(FAINT) == []
            person.one("#theme").click()

    def test_what_is_neither_found_nor_ruled_out_is_unsure_and_has_a_dashed_box(
        self, chromium: Any, server: Running
    ) -> None:
        """The server's own response, its evidence set between that of an audit's "not there" and a half."""
        person = Person(chromium, server)
        between = """const real = window.fetch; window.fetch = async (path, options) => {
            const response = await real(path, options);
            if (!String(path).startsWith("/v1/ground")) return response;
            const row = await response.json();
            const change = {evidence: (row.not_there_below + 0.5) / 2, found: false, result: "not found"};
            row.phrases = row.phrases.map((phrase) => ({...phrase, ...change}));
            return new Response(JSON.stringify(row), {status: 200}); };"""
        chromium.execute_script(between)
        person.choose_a_photo("cat.jpg")
        person.one("#sentence").send_keys("a cat\n")
        assert "unsure" in person.until(lambda: person.all("#found .bars li"))[0].text
        assert len(person.all("#stage rect.weak")) == 1 == len(person.all("#stage rect.box"))

    def test_an_answer_is_audited_and_its_words_cannot_break_out(self, chromium: Any, server: Running) -> None:
        person = Person(chromium, server)
        person.choose_a_photo("cat.jpg")
        person.one("#text").send_keys("<img src=x onerror=document.title='broken'> a cat and a train")
        person.one("#audit [type=submit]").click()
        text = person.until(lambda: person.all("#verdicts .summary"))[0].text
        assert "1 not there" in text and chromium.title == "groundling"

    def test_pasted_boxes_are_read_in_the_format_that_they_are_of(self, chromium: Any, server: Running) -> None:
        """A box in a corner is of the wrong thing; it is drawn dashed beside the likely one."""
        person = Person(chromium, server)
        person.choose_a_photo("cat.jpg")
        person.one("#text").send_keys("A cat [0, 0, 60, 60] is here")
        person.one("#audit [type=submit]").click()
        person.until(lambda: person.all("#verdicts .summary"))
        assert (
            "1 wrong place" in person.one("#verdicts").text and "Read as ferret: 1 box" in person.one("#verdicts").text
        )
        assert person.one("#verdicts .caption").text.replace("?", "") == "A cat is here"
        assert len(person.all("#stage rect.box")) == 2 and len(person.all("#stage rect.weak")) == 1

    def test_a_photo_may_be_dropped_anywhere_or_pasted(self, chromium: Any, server: Running) -> None:
        """Events as a browser makes them, with a file in them."""
        person = Person(chromium, server)
        send = """const [kind, done] = arguments; fetch("/examples/cat.jpg").then((r) => r.blob()).then((blob) => {
            const data = new DataTransfer(); data.items.add(new File([blob], "cat.jpg", {type: "image/jpeg"}));
            const event = kind === "drop" ? new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true})
                : new ClipboardEvent("paste", {clipboardData: data, bubbles: true});
            document.body.dispatchEvent(event); done(); });"""
        for kind in ("drop", "paste"):
            chromium.execute_async_script(send, kind)
            person.until(lambda: person.all("#caption .word"))
            person.one("#another").click()
            assert person.one("#drop").is_displayed() and not person.one("#results").is_displayed()

    def test_a_click_names_a_region_keys_walk_on_and_a_drawn_box_is_asked_about(
        self, chromium: Any, server: Running
    ) -> None:
        from selenium.webdriver import ActionChains, Keys

        person = Person(chromium, server)
        person.choose_a_photo()
        drawing = person.one("#stage svg")

        def clicked() -> bool:  # the regions come a moment after the caption
            drawing.click()
            return bool(person.all("#stage rect.region"))

        person.until(clicked)
        first = person.one("#region h2").text
        assert first.startswith("Region ") and len(person.all("#region li")) == 6
        drawing.send_keys(Keys.ARROW_RIGHT)
        assert person.one("#region h2").text != first
        ActionChains(chromium).move_to_element_with_offset(drawing, -50, -60).click_and_hold().move_by_offset(
            120, 130
        ).release().perform()
        person.until(lambda: person.one("#region h2").text == "What is this?")
        assert len(person.all("#stage rect.drawn")) == 1 and len(person.all("#region li")) == 6

    def test_a_clip_stops_at_the_frame_of_a_noun_and_a_box_in_it_is_asked_about(
        self, chromium: Any, server: Running, tmp_path: Path
    ) -> None:
        from selenium.webdriver import ActionChains

        person = Person(chromium, server)
        person.one("#file").send_keys(str(clip_of_photos(tmp_path / "clip.webm")))
        word = person.until(lambda: person.all("#caption .word"))[0]
        ActionChains(chromium).move_to_element(word).perform()
        person.until(lambda: person.all("#stage rect.on"))
        assert chromium.execute_script("return document.querySelector('#stage video').paused")
        person.one("#draw").click()
        drawing = person.one("#stage svg")
        ActionChains(chromium).move_to_element_with_offset(drawing, -40, -40).click_and_hold().move_by_offset(
            70, 60
        ).release().perform()
        person.until(lambda: [h.text for h in person.all("#region h2")] == ["What is this?"])
        assert len(person.all("#region li")) == 6 and person.quiet()

    def test_other_ways_to_choose_words(self, chromium: Any, server: Running) -> None:
        from selenium.webdriver.support.ui import Select

        person = Person(chromium, server)
        person.choose_a_photo()
        before = person.one("#caption").text
        Select(person.one("#decoding")).select_by_value("long")
        person.until(lambda: person.one("#caption").text != before and not person.all("[aria-busy]"))
        assert len(person.one("#caption").text.replace("?", "").split()) >= 12
        asked = """window.asked = []; const real = window.fetch; window.fetch = (path, options) => {
            window.asked.push(String(path) + String(options?.body)); return real(path, options); };"""
        chromium.execute_script(asked)
        person.one("#twice").click()
        person.until(lambda: "repeat_nouns" in str(chromium.execute_script("return window.asked")))
        Select(person.one("#decoding")).select_by_value("sample")
        assert person.one("#temperature").is_displayed() and not person.one("#twice").is_displayed()

    def test_a_busy_server_is_tried_again(self, chromium: Any, server: Running) -> None:
        """The first two requests about a photo get 503; the page waits as long as Retry-After says."""
        person = Person(chromium, server)
        busy = """window.refused = 0; const real = window.fetch; window.fetch = (path, options) => {
            if (!String(path).startsWith("/v1/regions") || window.refused === 2) return real(path, options);
            window.refused += 1;
            const headers = {"Content-Type": "application/problem+json", "Retry-After": "1"};
            return Promise.resolve(new Response(JSON.stringify({detail: "busy"}), {status: 503, headers})); };"""
        chromium.execute_script(busy)
        person.choose_a_photo("cat.jpg")
        assert chromium.execute_script("return window.refused") == 2
        assert not person.all("#status.wrong") and person.quiet()

    def test_what_goes_wrong_is_reported_in_the_words_of_the_server(
        self, chromium: Any, server: Running, tmp_path: Any
    ) -> None:
        person = Person(chromium, server)
        (tmp_path / "bad.png").write_bytes(b"no image")
        person.one("#file").send_keys(str(tmp_path / "bad.png"))
        message = person.until(lambda: person.all("#status.wrong"))[0].text
        assert "not an image in a known format" in message.lower()
        assert person.one("#drop").is_displayed()  # to try another one
        person.one("#dismiss").click()
        assert not person.one("#status").is_displayed()

    def test_labels_are_reviewed_by_keys_and_the_server_keeps_what_was_decided(
        self, chromium: Any, server: Running
    ) -> None:
        person = Person(chromium, server)
        person.until(lambda: person.one("#review").is_displayed())
        person.one("#review").click()
        person.until(lambda: person.all("#phrase") and person.one("#phrase").text == "a brown cat")
        keys = person.one("body")
        keys.send_keys("a")
        person.until(lambda: person.one("#phrase").text == "a woman")
        person.until(lambda: chromium.execute_script("return picture.naturalWidth") > 0)
        keys.send_keys("r")
        person.until(lambda: person.one("#count").text == "2 of 2 reviewed")

        def kept() -> list[tuple[str, str]]:
            rows = server.call("GET", "/v1/review").json()["decisions"]
            return [(row["image"], row["action"]) for row in rows]

        assert kept() == [("cat", "accept"), ("astronaut", "reject")]
        keys.send_keys("u")
        person.until(lambda: person.one("#count").text == "1 of 2 reviewed")
        chromium.refresh()
        person.until(lambda: person.one("#count").text == "1 of 2 reviewed" and person.one("#phrase").text == "a woman")
        assert kept() == [("cat", "accept")] and person.quiet()
        person.one("body").send_keys("u")
        person.until(lambda: person.one("#count").text == "0 of 2 reviewed")

    def test_a_search_shows_photos_with_their_boxes(self, chromium: Any, server: Running) -> None:
        person = Person(chromium, server)
        person.until(lambda: person.one("#tab-search").is_displayed())
        person.one("#tab-search").click()
        person.one("#query").send_keys("a brown cat\n")
        person.until(lambda: len(person.all("#hits rect")) == 2 and len(person.all("#hits img")) == 2)
        assert "a brown cat" in person.one("#hits article").text
        shown = "return document.querySelector('#hits img').naturalWidth > 0"
        person.until(lambda: chromium.execute_script(shown))
        person.one("#query").clear()
        person.one("#query").send_keys("...\n")
        assert "no word in the query" in person.until(lambda: person.all("#status.wrong"))[0].text.lower()
        person.one("#query").clear()
        person.one("#query").send_keys("a woman\n")
        person.until(lambda: [b for b in person.all("#hits button") if b.is_enabled()])[0].click()
        person.until(lambda: person.one("#view-photo").is_displayed() and person.all("#caption .word"))

    def test_it_fits_a_phone_is_dark_on_demand_and_can_be_used_by_keys(self, chromium: Any, server: Running) -> None:
        from selenium.webdriver import Keys

        person = Person(chromium, server)
        before = chromium.execute_script("return getComputedStyle(document.body).backgroundColor")
        person.one("#theme").send_keys(Keys.ENTER)
        assert chromium.execute_script("return getComputedStyle(document.body).backgroundColor") != before
        person.one("#theme").send_keys(Keys.ENTER)
        person.all("#examples button")[0].send_keys(Keys.ENTER)
        person.until(lambda: person.all("#caption .word"))
        assert chromium.execute_script("return document.activeElement === document.querySelector('#stage svg')")
        bare = "return [...document.querySelectorAll('button, input, textarea, select, img, svg')].filter((e) => "
        bare += "!(e.getAttribute('aria-label') || e.labels?.length || e.textContent.trim() || e.alt !== undefined"
        bare += """ || e.querySelector('img[alt]:not([alt=""])'))).length"""
        assert chromium.execute_script(bare) == 0  # a screen reader has a name for everything
        size = {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True}
        chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        try:
            assert chromium.execute_script("return document.documentElement.scrollWidth") <= 360
            assert person.one("#caption-card").location["y"] < person.one("#tools").location["y"]
        finally:
            chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
