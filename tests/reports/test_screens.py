"""The report in a browser: on a phone, on a desk and on paper."""

import dataclasses
import io
import itertools
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from looking import DESK, LOOKS, PHONE, Look, browser, faults, keyboard_faults, show, yen_faults
from PIL import Image
from playwright.sync_api import Page

from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.currency import Currency
from shadowprice.reports.data import ReportData
from shadowprice.reports.mix import Mix
from shadowprice.reports.one_page import write_one_page
from shadowprice.reports.report import render, write_report


def whole(example: ReportData) -> ReportData:
    """Every section of a report, with a mix of many levels."""
    rng = np.random.default_rng(0)
    levels = np.arange(20, 201, 20)
    campaign = Campaign(
        name="spring",
        sides={"customer": Terms(levels=tuple(levels.tolist())), "merchant": Terms(levels=(1000, 25_000))},
        budget=Budget(limit=500_000),
        starts_at=datetime(2026, 3, 1, tzinfo=UTC),
    )
    cells = [(hour, level, part) for hour in range(24) for level in range(-1, 10) for part in ("least responsive", "x")]
    hour, level, segment = (np.array(each) for each in zip(*cells, strict=True))
    paid = np.where(level < 0, 0, levels[level])
    requests = rng.integers(1, 4000, len(cells))
    mix = Mix(np.full(len(cells), "customer"), segment, hour, level, paid, requests, 0.3 * requests, paid * requests)
    return dataclasses.replace(example, campaign=campaign, mix=mix)


@pytest.fixture(scope="module")
def page(example: ReportData, tool: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    path = write_report(whole(example), tmp_path_factory.mktemp("report") / "report.html")
    with browser(tool("chromium")) as opened:
        page = opened.new_page()
        page.goto(path.as_uri())
        yield page


@pytest.mark.parametrize(("width", "look"), LOOKS)
def test_the_report_has_no_faults(page: Page, width: int, look: Look) -> None:
    show(page, width, look)
    assert faults(page) == []


@pytest.mark.parametrize(("width", "look"), LOOKS)
def test_the_summary_has_no_faults_and_paper_has_every_budget(
    example: ReportData, page: Page, tmp_path: Path, width: int, look: Look
) -> None:
    assert page.context.browser is not None
    summary = page.context.browser.new_page()
    long = dataclasses.replace(example.evidence[1], plan=f"shadowprice plan {'folder/' * 40}run")
    refused = dataclasses.replace(whole(example), evidence=(long,), absent={"worth": "not identified"})
    for data in (refused, whole(example)):
        summary.goto(write_one_page(data, tmp_path, "report.html").as_uri())
        show(summary, width, look)
        assert faults(summary) == []
    shown = [each.is_visible() for each in summary.locator(".choice p").all()]
    assert shown == ([True] * 3 if look == "print" else [False, True, False])
    summary.close()


def test_the_buttons_of_the_summary_show_what_another_budget_brings(
    example: ReportData, page: Page, tmp_path: Path
) -> None:
    assert page.context.browser is not None
    summary = page.context.browser.new_page()
    summary.goto(write_one_page(whole(example), tmp_path, "report.html").as_uri())
    summary.locator("label").first.click()
    assert "fewer than today; each of them saves $" in summary.inner_text(".choice")
    # The buttons are one stop of the Tab key; arrows choose.
    summary.reload()
    for key in ("Tab", "Tab", "ArrowRight"):
        summary.keyboard.press(key)
    assert "more than today; each of them costs $" in summary.inner_text(".choice")
    summary.close()


def test_a_report_in_yen_has_no_decimals_and_no_dollars_in_any_section(example: ReportData) -> None:
    page = render(dataclasses.replace(whole(example), currency=Currency.of("JPY")))
    assert "¥500,000" in page
    assert yen_faults(page) == []


def test_the_keyboard_reaches_and_moves_a_table_that_is_wider_than_the_page(page: Page) -> None:
    show(page, PHONE, "light")
    box = page.locator("#rehearsal .scroll").first
    page.locator("#rehearsal .wide").first.focus()
    page.keyboard.press("Tab")
    assert box.evaluate("each => each === document.activeElement")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("each => each.scrollLeft > 0", arg=box.element_handle())


def test_the_keyboard_reaches_all_parts_in_order_and_shows_where_it_is(page: Page) -> None:
    show(page, DESK, "light")
    page.reload()
    assert keyboard_faults(page) == []


def test_colors_of_lines_differ_for_people_who_do_not_tell_red_from_green(page: Page) -> None:
    names = ("model", "static", "hindsight", "budget", "truth")
    boxes = "".join(f'<i style="float:left;width:9px;height:9px;background:var(--{name})"></i>' for name in names)
    assert page.context.browser is not None
    palette = page.context.browser.new_page()
    style = page.evaluate("document.querySelector('style').outerHTML")
    palette.set_content(f"<!DOCTYPE html>{style}{boxes}")
    session = palette.context.new_cdp_session(palette)
    for look, sight in itertools.product(get_args(Look), ("none", "protanopia", "deuteranopia")):
        show(palette, PHONE, look)
        session.send("Emulation.setEmulatedVisionDeficiency", {"type": sight})
        boxes_at = [box.bounding_box() for box in palette.locator("i").all()]
        shown = Image.open(io.BytesIO(palette.screenshot())).convert("RGB")
        lab = [_lab(np.array(shown.getpixel((int(at["x"]) + 4, int(at["y"]) + 4)))) for at in boxes_at if at]
        for (one, here), (other, there) in itertools.combinations(zip(names, lab, strict=True), 2):
            # A difference of 2 is just seen where colors touch; lines are thin and apart.
            assert np.linalg.norm(here - there) > 15, (look, sight, one, other)
    palette.close()


def _lab(rgb: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of 8-bit sRGB, with the white of D65."""
    linear = np.where(rgb <= 10, rgb / 3294.6, ((rgb / 255 + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(to_xyz @ linear / to_xyz.sum(axis=1))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_a_fault_is_found(page: Page) -> None:
    """The checks themselves: a wide line, a pale one and a label outside its figure are found."""
    show(page, PHONE, "light")
    planted = (
        '<p class="planted" style="width:900px;color:#ccc">pale and wide</p>'
        '<svg class="planted" aria-label="planted" width="50" height="9"><text x="-30" y="8">outside</text></svg>'
    )
    page.evaluate("planted => document.body.insertAdjacentHTML('beforeend', planted)", planted)
    found = " ".join(faults(page))
    page.evaluate("document.querySelectorAll('.planted').forEach(each => each.remove())")
    assert "pixels wide in a window of 390" in found
    assert "cut: planted: outside" in found
    assert "color-contrast" in found
