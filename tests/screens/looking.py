"""Pages in a browser: their faults at a width and in a medium."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

Look = Literal["light", "dark", "print"]

PHONE, DESK, PAPER = 390, 1400, 718
"""Pixels of width; paper is A4 without its margins, at 96 pixels an inch."""
LOOKS: tuple[tuple[int, Look], ...] = (
    (PHONE, "light"),
    (PHONE, "dark"),
    (DESK, "light"),
    (DESK, "dark"),
    (PAPER, "print"),
)

CUT = """() => {
  const within = (box, outer) => box.width === 0
    || (box.left >= outer.left - 1 && box.right <= outer.right + 1
      && box.top >= outer.top - 1 && box.bottom <= outer.bottom + 1);
  const labels = [...document.querySelectorAll('svg')].flatMap(svg => [...svg.querySelectorAll('text')]
    .filter(text => !within(text.getBoundingClientRect(), svg.getBoundingClientRect()))
    .map(text => `${svg.getAttribute('aria-label')}: ${text.textContent}`));
  const beyond = [...document.querySelectorAll('.tile *, nav *, h1, h2, h3, p, summary, figcaption, li')]
    .filter(each => !each.closest('.scroll, .wide') && each.getBoundingClientRect().right > innerWidth + 1)
    .map(each => each.textContent);
  const hidden = [...document.querySelectorAll('.scroll')].filter(box => box.clientWidth).flatMap(box => {
    box.scrollLeft = 0;
    const edge = box.getBoundingClientRect().right + 1;
    return [...box.querySelectorAll('tr')].map(row => row.cells[1])
      .filter(cell => cell && cell.getBoundingClientRect().right > edge)
      .map(cell => `key figure out of view: ${cell.textContent.trim()}`).slice(0, 1);
  });
  const silent = [...document.querySelectorAll('.wide')]
    .filter(box => box.scrollWidth > box.clientWidth + 1 && !box.previousElementSibling?.checkVisibility())
    .map(box => `wider than the screen without a word: ${box.getAttribute('aria-label')}`);
  const onPaper = matchMedia('print').matches ? [...document.querySelectorAll('table, .scroll, .wide')]
    .filter(each => each.getBoundingClientRect().right > innerWidth + 1 || each.scrollWidth > each.clientWidth + 1)
    .map(each => `${each.tagName} on paper: ${each.textContent.trim().slice(0, 60)}`)
    .concat([...document.querySelectorAll('nav')].filter(each => each.checkVisibility()).map(() => 'nav on paper'),
      [...document.querySelectorAll('tr')].filter(each => getComputedStyle(each).breakInside !== 'avoid')
        .map(each => `row broken between pages: ${each.textContent.trim()}`),
      [...document.querySelectorAll('thead')].filter(each => getComputedStyle(each).display !== 'table-header-group')
        .map(() => 'head of a table not repeated on the next page')) : [];
  return [...labels, ...beyond, ...hidden, ...silent, ...onPaper];
}"""
"""Texts that are not shown in full: labels outside their figure, lines and tables outside the page, the second column
of a table before it is moved. Also charts that are wider than the screen and do not say so, and faults on paper."""


FOCUSABLE = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']"
NEXT = """focusable => {
  const all = [...document.querySelectorAll(focusable)].filter(each => each.checkVisibility());
  const at = document.activeElement, style = getComputedStyle(at);
  const seen = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
  return [all.length, all.indexOf(at), seen, at.outerHTML.slice(0, 80)];
}"""


@contextmanager
def browser(executable: str) -> Iterator[Browser]:
    """Start a headless Chromium that needs no display; a process of root has no sandbox."""
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as started:
        opened = started.chromium.launch(executable_path=executable, args=arguments)
        try:
            yield opened
        finally:
            opened.close()


def show(page: Page, width: int, look: Look) -> None:
    """Set the width of the window, and the medium and colors that the page is shown with."""
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(
        media="print" if look == "print" else "screen", color_scheme="dark" if look == "dark" else "light"
    )


def keyboard_faults(page: Page) -> list[str]:
    """Return what the Tab key does not reach in the order of the page, and what does not show its focus."""
    page.evaluate("document.activeElement.blur(); window.scrollTo(0, 0)")
    found: list[str] = []
    count, place = page.evaluate(NEXT, FOCUSABLE)[0], -1
    for expected in range(count):
        page.keyboard.press("Tab")
        _, place, seen, text = page.evaluate(NEXT, FOCUSABLE)
        if place != expected:
            return [*found, f"Tab {expected + 1} of {count} is at {place}: {text}"]
        if not seen:
            found.append(f"focus not seen: {text}")
    return found


def yen_faults(html: str) -> list[str]:
    """Return amounts of a page in yen that have decimals, and names of other money; yen has no minor unit."""
    text = re.sub(r"<style.*?</style>", "", html, flags=re.DOTALL)
    return re.findall(r"¥[\d,]+\.\d+|\$\d[\d,.]*|dollars|cents", text)


def faults(page: Page) -> list[str]:
    """Return each fault of an open page, with all its folded parts unfolded; none of a page that is well made."""
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
    wide, shown = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    found = [f"the page is {wide} pixels wide in a window of {shown}"] if wide > shown else []
    found += [f"cut: {text}" for text in page.evaluate(CUT)]
    # The script is half a megabyte, which a page of several looks reads once.
    if not page.evaluate("'axe' in window"):
        page.evaluate(Axe().axe_script)
    for each in page.evaluate("axe.run({resultTypes: ['violations']}).then(found => found.violations)"):
        if each["impact"] in ("serious", "critical"):
            found += [f"{each['id']}: {node['target']} {node['failureSummary']}" for node in each["nodes"]]
    return found
