"""Companies with vouchers and with funds, from CSV files to a service that is paced for a week."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.cells import Cells
from benchmarks.companies.funds import play_funds
from benchmarks.companies.vouchers import play_vouchers
from benchmarks.companies.week import place_rivals, voucher_rivals


def vouchers(sessions: int, epochs: int) -> dict[str, Any]:
    """Spend of the week's budget in minor units, and value over linear program and random."""
    with tempfile.TemporaryDirectory() as name:
        week = play_vouchers(Path(name), sessions=sessions, requests=sessions, epochs=epochs, every=1.0)
    gains = {rival: asdict(week.over(value)) for rival, value in voucher_rivals(week).items()}
    money = {"budget": week.campaign.budget.limit, "spent": week.totals["spent"]}
    return {**money, "requests": len(week.day), "value": float(week.own.sum()), "over": gains}


def funds(users: int, epochs: int) -> dict[str, Any]:
    """Places of the week by fund, and value in minor units over linear program and random."""
    with tempfile.TemporaryDirectory() as name:
        week, allowed = play_funds(Path(name), epochs=epochs, every=1.0, users=users, funds=8)
    gains = {rival: asdict(week.over(value)) for rival, value in place_rivals(week, allowed).items()}
    sizes = {segment.name: segment.demand for segment in week.campaign.segments}
    return {"sizes": sizes, "places": week.totals["places"], "value": float(week.own.sum()), "over": gains}


def run(cells: Cells, *, quick: bool = False) -> dict[str, Any]:
    """Sizes in sessions and accounts."""
    size, epochs = (2_000, 8) if quick else (12_000, 30)
    rows = {
        "vouchers": cells.of(f"{size} voucher sessions", partial(vouchers, size, epochs)),
        "funds": cells.of(f"{size} accounts with funds", partial(funds, size, epochs)),
    }
    for name, row in rows.items():
        over = {rival: "{value:,.5g} [{low:,.5g}, {high:,.5g}]".format(**gain) for rival, gain in row["over"].items()}
        print(f"{name}: value {row['value']:,.5g}, over the program {over['lp']}, over random {over['random']}")
    return {"weeks": rows}
