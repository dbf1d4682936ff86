"""Matplotlib figures as SVG that lives inside a page: its colors, its fonts, no reference outside.

Figures are drawn in stand-in colors that become CSS variables, so one drawing reads well on a
light page, a dark page and paper.
"""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

INK = "#010a01"
MUTED = "#010a02"
GRID = "#010a03"
OBSERVED = "#010a04"
MODEL = "#010a05"
TRUTH = "#010a06"
STATIC = "#010a07"
HINDSIGHT = "#010a08"
BUDGET = "#010a09"
DOTTED = (0, (1, 2))
DASHED = (0, (4, 2.5))

VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--grid",
    OBSERVED: "--observed",
    MODEL: "--model",
    TRUTH: "--truth",
    STATIC: "--static",
    HINDSIGHT: "--hindsight",
    BUDGET: "--budget",
}
"""Stand-in color → CSS variable of ``style.css.jinja``."""

STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "shadowprice",
    "text.parse_math": False,
    "font.size": 9.0,
    "axes.edgecolor": GRID,
    "axes.labelcolor": MUTED,
    "axes.titlecolor": INK,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "lines.linewidth": 1.8,
    "lines.solid_capstyle": "round",
    "text.color": INK,
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "ytick.major.size": 0.0,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "legend.labelcolor": INK,
    "legend.handlelength": 1.8,
    "legend.columnspacing": 1.4,
    "figure.constrained_layout.use": True,
}


@contextmanager
def figure(width: float, height: float, **grid: Any) -> Iterator[tuple[Figure, Any]]:
    """A figure of ``width`` × ``height`` inches and its axes, in the report's style.

    Drawing and :func:`to_svg` must both happen inside the ``with``.
    """
    with matplotlib.rc_context(STYLE):
        drawn = Figure(figsize=(width, height))
        yield drawn, drawn.subplots(**grid)


def steps(axes: Axes, rates: NDArray[np.float64], edges: NDArray[np.floating[Any]], **line: Any) -> None:
    """A line that is constant between ``edges`` (K+1,) at ``rates`` (K,)."""
    axes.stairs(rates, edges, baseline=None, **line)


def legend_above(axes: Axes, columns: int = 4) -> None:
    """Legend between title and plot, with at most ``columns`` entries in a row."""
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.2, borderpad=0.0, ncols=columns)
    if axes.get_title(loc="left"):
        rows = -(-len(axes.get_legend_handles_labels()[1]) // columns)
        axes.set_title(axes.get_title(loc="left"), pad=9.0 + 13.0 * rows)


def ticks(axes: Axes, axis: str, write: Any, most: int = 5) -> None:
    """Limit the ticks on ``axis`` (x or y) to ``most``, written by ``write(value)``."""
    chosen = axes.xaxis if axis == "x" else axes.yaxis
    chosen.set_major_locator(MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]))
    chosen.set_major_formatter(FuncFormatter(lambda value, _: write(value)))


def shows_change(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return ends of an axis on which ``values`` ≥ 0 differ visibly: from 0, unless they differ by little.

    >>> shows_change(np.array([0.0, 4.0]))
    (0.0, 4.4)
    >>> shows_change(np.array([0.5, 0.6]))
    (0.48, 0.62)
    """
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    if high - low > high / 3 or high <= 0:
        return 0.0, 1.1 * high or 1.0
    margin = 0.2 * (high - low) or 0.1 * high
    return round(max(low - margin, 0.0), 12), round(high + margin, 12)


def tell(axes: Axes, x: float, y: float, text: str) -> None:
    """Show ``text`` where the pointer rests near a point; the page needs no script for it."""
    axes.plot([x], [y], "o", color=GRID, markersize=13, alpha=0.0, gid=f"told-{text.encode().hex()}", zorder=9)


def to_svg(drawn: Figure, key: str, label: str) -> str:
    """The figure as an ``<svg>`` element for an HTML page.

    ``key`` (letters, digits, dashes; unique on the page) keeps its ids apart from other figures';
    ``label`` is read out where the picture is not seen.
    """
    buffer = io.StringIO()
    drawn.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    box = re.search(r'viewBox="([^"]*)"', text)
    body = text[text.index(">") + 1 :]
    body = re.sub(r'<g id="told-([0-9a-f]+)">', _told, body)
    body = re.sub(r' id="([^"]+)"', rf' id="{key}-\1"', body)
    body = re.sub(r"url\(#([^)]+)\)", rf"url(#{key}-\1)", body)
    body = re.sub(r'xlink:href="#([^"]+)"', rf'href="#{key}-\1"', body)
    for color, variable in VARIABLES.items():
        body = body.replace(color, f"var({variable})")
    return f'<svg viewBox="{box.group(1) if box else ""}" role="img" aria-label="{_attribute(label)}">{body}'


def _told(match: re.Match[str]) -> str:
    return f"<g><title>{_attribute(bytes.fromhex(match[1]).decode())}</title>"


def _attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
