"""Drawings of measurements by the number of accounts."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt

Lines = Mapping[str, Sequence[tuple[float, float]]]
"""Label → points."""


def draw(panels: Mapping[str, Lines], path: Path, ylabel: str = "") -> None:
    """Draw lines on logarithmic axes, a panel for each title; with a ``ylabel`` the panels share their scale."""
    drawn, axes = plt.subplots(1, len(panels), figsize=(10, 4), sharey=bool(ylabel), layout="constrained")
    for panel, (title, lines) in zip(axes, panels.items(), strict=True):
        for label, points in lines.items():
            panel.plot(*zip(*points, strict=True), marker="o", label=label)
        panel.set(xscale="log", yscale="log", xlabel="accounts", title=title)
        panel.grid(alpha=0.3)
    axes[0].set_ylabel(ylabel)
    axes[-1].legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    drawn.savefig(path, metadata={"Date": None})
    plt.close(drawn)
