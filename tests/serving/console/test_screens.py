"""The console in a browser: on a phone, on a desk and on paper."""

from collections.abc import Callable, Iterator

import pytest
from looking import LOOKS, browser, faults, keyboard_faults, show
from playwright.sync_api import Page


@pytest.fixture(scope="module")
def page(tool: Callable[[str], str]) -> Iterator[Page]:
    with browser(tool("chromium")) as opened:
        yield opened.new_page()


PAGES = (
    "",
    "portfolio",
    "campaigns/spring",
    "campaigns/spring/mix",
    "campaigns/spring/changes",
    "campaigns/spring/requests?request_id=c2",
    "campaigns/spring/requests?request_id=account-c2",
)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_has_no_faults(console, page: Page, path: str) -> None:
    page.goto(f"{console.url}/{path}")
    for width, look in LOOKS:
        show(page, width, look)
        assert faults(page) == [], (width, look)
    show(page, *LOOKS[0])
    page.goto(f"{console.url}/{path}")
    assert keyboard_faults(page) == []


def test_a_person_finds_a_request_from_the_first_page_with_the_keyboard(console, page: Page) -> None:
    show(page, *LOOKS[0])
    page.goto(console.url)
    page.get_by_role("link", name="Request or account").press("Enter")
    page.get_by_label("Request or account").fill("c2")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Decision").wait_for()
    assert "account-c2" in page.inner_text("main")
