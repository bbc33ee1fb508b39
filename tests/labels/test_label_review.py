"""The review page, and what becomes of its answers."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
from labelled_photos import labelled

from groundling.errors import DataError
from groundling.labels import LabelledImage, review
from groundling.labels.review import Decision


@pytest.fixture
def images(tmp_path: Path) -> list[LabelledImage]:
    return labelled(tmp_path / "photos")


def test_the_least_certain_come_first_and_what_names_no_thing_never(images: list[LabelledImage]) -> None:
    """Confidence 0.75, 0.8 and 0.95; the label without a box is not shown."""
    found = review.least_certain(images, 10)
    assert [image.labels[at].phrase for image, at in found] == ["two dogs", "A man", "A cat"]
    assert len(review.least_certain(images, 2)) == 2


def test_decisions_change_labels(images: list[LabelledImage]) -> None:
    decisions = {
        ("a", 0): Decision("a", 0, "accept"),
        ("a", 1): Decision("a", 1, "redraw", boxes=((1, 2, 30, 40),)),
        ("b", 0): Decision("b", 0, "reject"),
    }
    first, second = review.apply(images, decisions)
    assert first.labels[0].confidence == 1.0 and first.labels[0].boxes[0].box == images[0].labels[0].boxes[0].box
    assert [placed.box for placed in first.labels[1].boxes] == [(1, 2, 30, 40)]
    assert first.labels[2] == images[0].labels[2]
    assert second.kept == () and second.labels[0].left_out == "rejected in review"
    assert second.above(0.6).labels[0].left_out == "rejected in review"


def test_a_new_name_brings_its_head(images: list[LabelledImage]) -> None:
    found = next(review.apply(images[1:], {("b", 0): Decision("b", 0, "relabel", phrase="two white rabbits")}))
    assert (found.labels[0].phrase, found.labels[0].head) == ("two white rabbits", "rabbit")


def test_a_decision_about_nothing_is_an_error(images: list[LabelledImage]) -> None:
    with pytest.raises(DataError, match="label 7 of image 'a'"):
        list(review.apply(images, {("a", 7): Decision("a", 7, "accept")}))
    with pytest.raises(DataError, match="beyond the image"):
        list(review.apply(images, {("a", 0): Decision("a", 0, "redraw", boxes=((0, 0, 999, 9),))}))


def test_a_review_judges_boxes(images: list[LabelledImage]) -> None:
    """Re-drawn: the first dog's box is nearly the new one, the second is not. A new name says nothing of the box."""
    decisions = {
        ("a", 0): Decision("a", 0, "accept"),
        ("a", 1): Decision("a", 1, "redraw", boxes=((50, 40, 71, 79),)),
        ("b", 0): Decision("b", 0, "relabel", phrase="a dog"),
    }
    found = review.checked_boxes(images, decisions)
    assert [(one.placed.score, one.right) for one in found] == [(0.7, True), (0.6, True), (0.5, False)]
    with pytest.raises(DataError, match="too few"):
        review.recalibrated(images, decisions, "")


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        '{"format": 2}',
        '{"format": 1, "decisions": []}',
        '{"format": 1, "decisions": [7]}',
        '{"format": 1, "decisions": [{"image": "a", "label": 0, "action": "burn"}]}',
        '{"format": 1, "decisions": [{"image": "a", "label": 0, "action": "redraw"}]}',
        '{"format": 1, "decisions": [{"image": "a", "label": 0, "action": "redraw", "boxes": [[1, 2, 1e999, 4]]}]}',
    ],
)
def test_a_damaged_review_is_named(content: str, tmp_path: Path) -> None:
    (tmp_path / "review.json").write_text(content)
    with pytest.raises(DataError, match="review.json"):
        review.read(tmp_path / "review.json")


@pytest.mark.browser
@pytest.mark.filterwarnings("ignore")
def test_a_person_reviews_with_keys_and_the_answers_come_back(images: list[LabelledImage], tmp_path: Path) -> None:
    """Accept, draw again, label again, undo; after a reload the answers are still there."""
    if not shutil.which("chromium"):
        pytest.skip("needs Chromium")
    from selenium import webdriver
    from selenium.webdriver import ActionChains, Keys
    from selenium.webdriver.common.by import By

    page = tmp_path / "review.html"
    assert review.write_page(page, images) == 3
    options = webdriver.ChromeOptions()
    for option in ("--headless=new", "--no-sandbox", "--window-size=1000,1200", "--disable-gpu"):
        options.add_argument(option)
    options.binary_location = str(shutil.which("chromium"))
    driver = webdriver.Chrome(options, webdriver.ChromeService(str(shutil.which("chromedriver"))))
    try:
        driver.get(page.as_uri())
        keys = driver.find_element(By.TAG_NAME, "body")
        assert driver.find_element(By.ID, "phrase").text == "two dogs"
        keys.send_keys("d")
        canvas = driver.find_element(By.ID, "picture")
        width = canvas.size["width"]
        drag = ActionChains(driver).move_to_element_with_offset(canvas, -width // 4, 0).click_and_hold()
        drag.move_by_offset(width // 2, 30).release().send_keys(Keys.ENTER).perform()
        assert driver.find_element(By.ID, "phrase").text == "A man"
        keys.send_keys("r")
        keys.send_keys("u")
        assert driver.find_element(By.ID, "phrase").text == "A man"
        keys.send_keys("a")
        keys.send_keys("l")
        driver.find_element(By.ID, "name").send_keys("a white cat" + Keys.ENTER)
        assert driver.find_element(By.ID, "count").text == "3 of 3 reviewed"
        time.sleep(1)  # a browser keeps what a page has stored a moment later
        driver.refresh()
        assert driver.find_element(By.ID, "count").text == "3 of 3 reviewed"
        (tmp_path / "review.json").write_text(driver.execute_script("return review()"))
    finally:
        driver.quit()
    decisions = review.read(tmp_path / "review.json")
    assert {key: one.action for key, one in decisions.items()} == {
        ("a", 1): "redraw",
        ("a", 0): "accept",
        ("b", 0): "relabel",
    }
    left, top, right, bottom = decisions["a", 1].boxes[0]
    assert (left, right) == (pytest.approx(30, abs=1.5), pytest.approx(90, abs=1.5)) and 0 < top < bottom < 80
    first, second = review.apply(images, decisions)
    assert second.labels[0].phrase == "a white cat" and first.labels[0].confidence == 1.0
