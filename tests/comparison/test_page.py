"""The page of ``coordnet compare --html`` in a browser: opened from disk, its sliders moved, its table sorted."""

import io
import json
import shutil
import sys

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image
from playwright.sync_api import sync_playwright

from coordnet.cli import main
from coordnet.comparison import table
from coordnet.metrics import baselines

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
ODD = "<b>& 'odd\" photo"
PHONE = {"viewport": {"width": 360, "height": 700}, "has_touch": True, "is_mobile": True}
COMMAND = ("--encoder", "gaussian", "--html", "--quiet", "--out", "out")


def failing(_):
    raise ValueError("no <i>cubic</i> today")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A dark picture compared; its nearest neighbours are made white, its cubic spline made to fail."""
    folder = tmp_path_factory.mktemp("page")
    pixels = np.random.default_rng(0).integers(0, 60, (48, 64, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(folder / f"{ODD}.png")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setitem(baselines.BASELINES, "nearest", lambda s: torch.ones(*s.grid, s.channels))
        patch.setitem(baselines.BASELINES, "cubic", failing)
        patch.setattr(table, "comparison_figure", lambda *_, **__: Figure((1, 1)))
        patch.setattr(sys, "argv", ["coordnet", "compare", f"{ODD}.png", "--sample", "every:2", *COMMAND])
        assert main() == 0
    return folder / "out"


@pytest.fixture(scope="module")
def record(folder):
    return json.loads((folder / "record.json").read_text())


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(request, browser, folder):
    """The page, without a network; it must ask for nothing but itself, and complain of nothing."""
    context = browser.new_context(offline=True, **getattr(request, "param", {}))
    page = context.new_page()
    asked, complaints = [], []
    page.on("request", lambda r: asked.append(r.url))
    page.on("console", lambda m: complaints.append(m.text))
    page.on("pageerror", lambda e: complaints.append(str(e)))
    page.goto((folder / "compare.html").as_uri())
    yield page
    context.close()
    assert asked[0].startswith("file:")
    assert all(url.startswith("data:image/webp") for url in asked[1:])
    assert not complaints


def names(page, selector):
    return page.locator(selector).all_inner_texts()


def card(page, name):
    return page.locator(".card", has=page.get_by_role("heading", name=name, exact=True))


def divided(slider):
    """Where the divider is seen, as a share of the picture's width."""
    box, bar = slider.bounding_box(), slider.locator(".divider").bounding_box()
    return (bar["x"] + bar["width"] / 2 - box["x"]) / box["width"]


def seen(slider):
    """The mean brightness of the left and of the right quarter of what is on the screen, between the labels."""
    picture = np.asarray(Image.open(io.BytesIO(slider.screenshot())).convert("L"), dtype=float)
    height, width = picture.shape
    rows = slice(int(0.8 * height), height - 2)
    return picture[rows, 2 : width // 4].mean(), picture[rows, -width // 4 : -2].mean()


@pytest.mark.slow
@pytest.mark.parametrize("page", [{}, PHONE], indirect=True, ids=["screen", "phone"])
def test_all_methods_are_shown_with_what_they_reached(page, record):
    methods = record["methods"]
    assert page.title() == page.locator("h1").inner_text() == f"{ODD}: methods compared"
    assert names(page, "tbody th") == [m["name"] for m in methods] == names(page, ".card h2")
    for row, method in zip(page.locator("tbody tr").all(), methods, strict=True):
        if method["status"] == "failed":
            assert "failed: no <i>cubic</i> today" in row.inner_text()
            assert "failed: no <i>cubic</i> today" in card(page, method["name"]).inner_text()
        else:
            assert f"{method['psnr']['held_out']:.2f} dB" in row.inner_text()
    widths = page.evaluate("() => Promise.all([...document.images].map(i => i.decode().then(() => i.naturalWidth)))")
    done = sum(m["status"] == "done" for m in methods)
    assert widths == [64] * (2 * done + 2)
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_the_mouse_moves_the_slider(page):
    slider = card(page, "baseline · nearest").locator(".slider")
    slider.scroll_into_view_if_needed()
    left, right = seen(slider)
    assert left < 60 and right > 250  # the dark truth, the white method
    box = slider.bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] / 2, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.1 * box["width"], middle, steps=4)
    assert divided(slider) == pytest.approx(0.1, abs=0.01)
    page.mouse.move(box["x"] + 2 * box["width"], middle)
    page.mouse.up()
    page.mouse.move(box["x"] + 0.3 * box["width"], middle)  # no longer held
    assert divided(slider) == pytest.approx(1)
    assert max(seen(slider)) < 60


def test_a_finger_moves_the_slider(browser, folder):
    context = browser.new_context(**PHONE)
    page = context.new_page()
    page.goto((folder / "compare.html").as_uri())
    slider = page.locator(".slider").first
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    wire = context.new_cdp_session(page)

    def touch(kind, share, down=0.5):
        at = {"x": box["x"] + share * box["width"], "y": box["y"] + down * box["height"]}
        wire.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [] if kind == "touchEnd" else [at]})

    touch("touchStart", 0.5)
    for share in (0.6, 0.7, 0.8):
        touch("touchMove", share)
    touch("touchEnd", 0.8)
    assert divided(slider) == pytest.approx(0.8, abs=0.02)
    page.touchscreen.tap(box["x"] + 0.2 * box["width"], box["y"] + 0.5 * box["height"])
    assert divided(slider) == pytest.approx(0.2, abs=0.02)
    context.close()


def test_another_method_can_stand_on_the_left(page):
    slider = card(page, "baseline · linear").locator(".slider")
    slider.scroll_into_view_if_needed()
    assert max(seen(slider)) < 60
    page.get_by_label("Left of every divider").select_option("baseline · nearest")
    left, right = seen(slider)
    assert left > 250 and right < 60
    assert slider.get_by_role(
        "slider", name="Divider: baseline · nearest on the left, baseline · linear on the right"
    ).count()
    page.get_by_label("Left of every divider").select_option("samples")
    assert slider.locator(".left").inner_text() == "samples"


def test_the_table_sorts_and_the_pictures_follow(page, record):
    done = [m for m in record["methods"] if m["status"] == "done"]
    failed = [m["name"] for m in record["methods"] if m["status"] == "failed"]

    def sorted_names(key, reverse=False):
        return [m["name"] for m in sorted(done, key=key, reverse=reverse)] + failed

    def order():
        shown = names(page, "tbody th")
        assert shown == names(page, ".card h2")
        return shown

    def by_psnr(method):
        return method["psnr"]["held_out"]

    assert order() == sorted_names(by_psnr, True)
    score = page.get_by_role("button", name="held-out PSNR")
    score.click()
    assert order() == sorted_names(by_psnr)
    head = page.get_by_role("columnheader", name="held-out PSNR")
    assert head.get_attribute("aria-sort") == "ascending"
    page.get_by_role("button", name="fit").focus()
    page.keyboard.press("Enter")
    assert order() == sorted_names(lambda m: m["seconds"]["fit"])
    assert head.get_attribute("aria-sort") == "none"
    page.get_by_role("button", name="method").click()
    assert order()[: len(done)] == sorted(m["name"] for m in done)
    page.get_by_role("button", name="parameters").click()
    count = [m["parameters"] for name in order() for m in done if m["name"] == name]
    assert [c is None for c in count] == sorted(c is None for c in count)  # those without are last
