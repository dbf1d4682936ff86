"""Partners of a replayed day, drawn from past requests."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.errors import InvalidInput
from shadowprice.limits import Cap, Limits
from shadowprice.pacing.replay.day import Day
from shadowprice.pacing.replay.partners import draw_partners, past_partners, with_partners

PAIRS = pd.DataFrame(
    [("b", "p1", 1), ("b", "p3", 2), ("a", "p1", 3), ("b", "", 9), ("d", "", 4), ("b", "p2", 5)],
    columns=["account_id", "partner_id", "activity"],
)
CAMPAIGN = Campaign(
    name="c",
    sides={"customer": Terms(levels=(0, 50)), "merchant": Terms(levels=(0, 20))},
    budget=Budget(limit=100),
    starts_at=datetime(2026, 1, 1, tzinfo=UTC),
)


def day(accounts: list[str], sides: list[str]) -> Day:
    names = np.array([f"r{row}" for row in range(len(accounts))])
    return Day(names, np.array(accounts), np.array(sides), np.linspace(0, 0.9, len(accounts)), 24)


def capped(side: str | None) -> Campaign:
    limits = Limits(caps=(Cap(name="shop", per="partner", count=1, side=side),))
    return replace(CAMPAIGN, limits=limits)


def test_partners_are_drawn_in_proportion_to_the_accounts_own_past() -> None:
    found = draw_partners(PAIRS, np.array(["b"] * 800), np.random.default_rng(0).random(800))
    names, counts = np.unique(found, return_counts=True)
    assert names.tolist() == ["p1", "p2", "p3"]
    assert stats.chisquare(counts, 800 * np.array([1, 5, 2]) / 8).pvalue > 1e-3
    ends = draw_partners(PAIRS, np.array(["b", "b", "a", "d", "z"]), np.array([0.0, 1 - 1e-16, 0.5, 0.5, 0.5]))
    assert ends.tolist() == ["p1", "p2", "p1", "", ""]
    assert draw_partners(PAIRS[:0], np.array(["a"]), np.zeros(1)).tolist() == [""]


def test_a_request_that_the_service_would_refuse_is_left_out_and_partners_do_not_depend_on_the_others() -> None:
    asked = day(["a", "d", "b", "m"], ["customer"] * 3 + ["merchant"])
    plain = with_partners(asked, {"customer": PAIRS}, CAMPAIGN)
    assert plain.request_id.tolist() == ["r0", "r1", "r2", "r3"]
    assert plain.partners[[0, 1, 3]].tolist() == ["p1", "", ""]
    stopped = with_partners(asked, {"customer": PAIRS}, capped("customer"))
    assert stopped.request_id.tolist() == ["r0", "r2", "r3"]
    assert stopped.partners.tolist() == plain.partners[[0, 2, 3]].tolist()
    with pytest.raises(InvalidInput, match=r"'shop' counts by partner, and no past request of side 'merchant'"):
        with_partners(asked, {"customer": PAIRS}, capped(None))
    assert past_partners({"customer": PAIRS}, {"customer": np.array(["a", "a"])}, 0)["customer"].tolist() == ["p1"] * 2
