"""Budgets that campaigns share: each prices its share, the day spends them, and the ledger stops at the limit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
import pytest

from benchmarks.pacing.together import replay_together
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.errors import NotCertified
from shadowprice.limits import GroupBudget, Limits
from shadowprice.limits.usage import Usage
from shadowprice.pacing.budgets.in_hand import in_hand_of_budgets, shares_of_budgets, used_of_budgets
from shadowprice.pacing.budgets.periods import parts_of
from shadowprice.pacing.pacers import CampaignState, Pacer, make_pacer
from shadowprice.pacing.replay.compare import Setting
from shadowprice.pacing.replay.outcomes import OutcomeModel
from shadowprice.pacing.replay.run import Replay
from shadowprice.pacing.resolve import Resolution
from shadowprice.pacing.spend import CapUse, SpendReport

NAMES = ("autumn", "spring")
CUSTOMERS = GroupBudget(name="both", limit=150_000, where='side == "customer"', campaigns=NAMES)
START = datetime(2026, 3, 2, tzinfo=UTC)


def spend(own: int, others: int) -> SpendReport:
    use = CapUse.of({"": Usage(own, 3)}, {"": Usage(others, 2)})
    return SpendReport(
        spent=own, responses={}, requests={}, used_of={"both": own}, caps={"both": use}, observed_at=START
    )


def campaign_of(**changes: object) -> Campaign:
    budget = replace(CUSTOMERS, **changes)  # type: ignore[arg-type]
    return Campaign(
        name="spring",
        sides={"customer": Terms(levels=(0, 50))},
        budget=Budget(limit=1_000_000),
        starts_at=START,
        limits=Limits(budgets=(budget,)),
    )


@pytest.mark.parametrize(
    ("own", "others", "share"),
    [(0, 0, 0.5), (30_000, 30_000, 0.5), (60_000, 20_000, 61_500 / 83_000), (0, 147_000, 0.01)],
)
def test_a_campaign_has_the_share_of_the_rest_that_it_used_of_the_period(own: int, others: int, share: float) -> None:
    campaign = campaign_of()
    assert shares_of_budgets(campaign, spend(own, others)) == {"both": pytest.approx(share)}
    assert used_of_budgets(campaign, spend(own, others), {}) == {"both": own}
    rest = max(150_000 - own - others, 0)
    assert in_hand_of_budgets(campaign, spend(own, others), {}) == {"both": pytest.approx(share * rest)}


def test_shares_of_all_campaigns_add_up_and_overspending_leaves_nothing() -> None:
    campaign, uses = campaign_of(), (48_000, 17_000)
    shares = [shares_of_budgets(campaign, spend(uses[place], uses[1 - place]))["both"] for place in (0, 1)]
    assert sum(shares) == pytest.approx(1)
    assert in_hand_of_budgets(campaign, spend(90_000, 90_000), {}) == {"both": 0}
    with pytest.raises(NotCertified, match="measure again"):
        shares_of_budgets(campaign, replace(spend(1, 1), caps={}))


def test_later_periods_have_the_campaigns_share_of_the_whole_limit() -> None:
    campaign = campaign_of(period="hour")
    _, rows = parts_of(campaign, {"customer": np.ones(4)}, 0, {"both": 7_000.0}, {"both": 0.25})
    assert [row.in_hand for row in rows] == [7_000.0, *[0.25 * 150_000] * 3]


def two_campaigns(make_setting: Callable[..., Setting], seed: int) -> list[Setting]:
    """Two campaigns, of which one has three times the requests of the other."""
    found = []
    for place, (name, requests) in enumerate(zip(NAMES, (9000, 3000), strict=True)):
        setting = make_setting(seed, requests=requests)
        campaign = replace(setting.campaign, name=name, limits=Limits(budgets=(CUSTOMERS,)))
        found.append(
            replace(
                setting,
                campaign=campaign,
                outcomes=OutcomeModel(campaign, setting.outcomes.truth, seed=seed + place),
            )
        )
    return found


@dataclass
class Unpriced(Pacer):
    """The pacer of a campaign without the shared budget; the ledger stops at it all the same."""

    inner: Pacer

    def moments(self, hours: int) -> Sequence[float]:
        return self.inner.moments(hours)

    def price(self, state: CampaignState) -> Resolution | None:
        return self.inner.price(replace(state, campaign=replace(state.campaign, limits=Limits())))


def test_two_campaigns_spend_a_budget_that_they_share_over_the_day_by_its_price(
    make_setting: Callable[..., Setting],
) -> None:
    settings = two_campaigns(make_setting, seed=5)
    value, refused = [], []
    for priced in (True, False):
        inner = make_pacer("hourly")
        runs = replay_together(settings, lambda _, priced=priced, inner=inner: inner if priced else Unpriced(inner))  # type: ignore[misc]
        used = [of_customers(run) for run in runs.values()]
        assert sum(used) <= CUSTOMERS.limit
        assert sum(used) > 0.97 * CUSTOMERS.limit
        value.append(sum(float(run.outcomes.response[run.outcomes.side == "customer"].sum()) for run in runs.values()))
        refused.append(sum(int(run.slots["exhausted"].sum()) for run in runs.values()))
        if priced:
            records = {name: [each.record for _, each in run.prices] for name, run in runs.items()}
            assert all(record.prices["both"] > 0 for own in records.values() for record in own[1:20])
            # The campaign with more requests uses more, and the plan of each ends at its own part.
            assert used[0] > 1.5 * used[1]
            for name, own in records.items():
                assert own[12].plans["both"][-1] == pytest.approx(of_customers(runs[name]), rel=0.2)
    assert refused[0] < 0.2 * refused[1]
    assert value[0] > 1.3 * value[1]


def of_customers(run: Replay) -> float:
    """Minor units paid to customers."""
    return float(run.outcomes.cost[run.outcomes.side == "customer"].sum())
