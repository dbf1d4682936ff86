"""A campaign whose levels are permuted offers is decided, paced and capped as the campaign of their amounts."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from shadowprice.campaign import Campaign, Side, Terms
from shadowprice.curves import Curves
from shadowprice.decision import NOTHING
from shadowprice.limits import Cap, Limits
from shadowprice.limits.coverage import SideRequests
from shadowprice.pacing.budgets.caps import CapsAhead
from shadowprice.pacing.pacers import make_pacer
from shadowprice.pacing.questions import Change
from shadowprice.pacing.replay.allowance import within_budget
from shadowprice.pacing.replay.compare import Setting, attainable, run_pacer
from shadowprice.pacing.replay.gains import gains
from shadowprice.pacing.replay.outcomes import NamedCurves, OutcomeModel
from shadowprice.pacing.spend import CapUse, SpendReport
from shadowprice.pacing.what_if import WhatIf

ORDER: Mapping[Side, tuple[int, ...]] = {"customer": (0, 4, 2, 1, 3), "merchant": (0, 3, 1, 2)}
"""Place of the ordered level that each offer stands for; the control stays first."""


def permuted_terms(terms: Terms, order: tuple[int, ...]) -> Terms:
    costs = tuple(terms.levels[place] for place in order)
    numbers = tuple(range(len(order)))
    names = tuple(f"offer {cost}" for cost in costs)
    return replace(terms, levels=numbers, offers=names, amounts=(0,) * len(order), costs=costs, ordered=False)


def permuted_curves(curves: Curves, side: Side) -> Curves:
    return replace(curves, levels=np.arange(len(ORDER[side])), response=curves.response[list(ORDER[side])])


def permuted(setting: Setting) -> Setting:
    """The same day with offers in place of amounts."""
    sides = {side: permuted_terms(terms, ORDER[side]) for side, terms in setting.campaign.sides.items()}
    campaign = replace(setting.campaign, sides=sides)
    people = {
        side: NamedCurves(who.account_id, permuted_curves(who.curves, side)) for side, who in setting.model.items()
    }
    outcomes = OutcomeModel(campaign, people, seed=setting.outcomes.seed)
    return replace(setting, campaign=campaign, outcomes=outcomes, model=people)


@pytest.mark.parametrize("form", ["total", "per_response"])
def test_a_day_is_decided_and_paid_alike(make_setting: Callable[..., Setting], form: str) -> None:
    setting = make_setting(form=form, requests=1500)
    other = permuted(setting)
    one, two = (run_pacer(each, make_pacer("hourly")) for each in (setting, other))
    back = {side: np.array(order) for side, order in ORDER.items()}
    for side in ORDER:
        mine = two.outcomes.side == side
        given = two.outcomes.level[mine]
        level = np.where(given >= 0, back[side][given], given)
        assert np.mean(level == one.outcomes.level[one.outcomes.side == side]) > 0.995
    assert two.outcomes.cost.sum() == pytest.approx(one.outcomes.cost.sum(), rel=5e-3)
    if form == "total":
        assert two.outcomes.cost.sum() <= other.campaign.budget.limit
    first, second = gains(setting, one.outcomes), gains(other, two.outcomes)
    for over, gain in first.items():
        assert second[over].whole.responses.value == pytest.approx(gain.whole.responses.value, abs=3.0), over
    best, same = attainable(setting), attainable(other)
    assert (same.lowest, same.flat, same.best) == pytest.approx((best.lowest, best.flat, best.best), rel=1e-6)


def question(setting: Setting) -> WhatIf:
    curves = {side: replace(who.curves, weight=np.ones(who.curves.accounts)) for side, who in setting.model.items()}
    return WhatIf(setting.campaign, curves, {"customer": 1000.0, "merchant": 500.0})


def test_what_if_answers_alike_and_takes_levels_by_their_numbers(make_setting: Callable[..., Setting]) -> None:
    setting = make_setting(requests=1500)
    asked, other = question(setting), question(permuted(setting))
    kept = {
        side: tuple(setting.campaign.terms(side).levels[at] for at in (0, order[1])) for side, order in ORDER.items()
    }
    changes = [
        (Change(), Change()),
        (Change(budget=60_000), Change(budget=60_000)),
        (Change(caps={"customer": 120.0}), Change(caps={"customer": 120.0})),
        (Change(levels=kept), Change(levels=dict.fromkeys(ORDER, (0, 1)))),
    ]
    for mine, theirs in changes:
        one, two = asked.ask(mine), other.ask(theirs)
        assert (two.value.value, two.added.value, two.spend.value, two.price.value) == pytest.approx(
            (one.value.value, one.added.value, one.spend.value, one.price.value), rel=1e-6
        )


def test_caps_grant_alike_where_a_free_offer_stands_behind_a_paid_one(make_setting: Callable[..., Setting]) -> None:
    setting = make_setting(requests=1500)
    plan: Campaign = replace(
        setting.campaign,
        sides={"customer": Terms(levels=(0, 50, 80, 100, 150))},
        limits=Limits(caps=(Cap(name="uses", period="day", amount=100, per="account"),)),
    )
    own = setting.model["customer"]
    unused = {"uses": CapUse.of({}, {})}
    spend = SpendReport(spent=0, responses={}, requests={"customer": 0}, caps=unused, observed_at=plan.starts_at)
    ahead = np.full(24, 100.0)
    weight = np.ones(own.curves.accounts)
    curves = replace(own.curves, levels=np.array((0, 50, 80, 100, 150)), weight=weight)
    order = [1, 0, 4, 2, 3]
    terms = permuted_terms(plan.terms("customer"), tuple(order))
    other = replace(plan, sides={"customer": terms})
    theirs = replace(curves, levels=np.arange(5), response=curves.response[order])
    found = []
    for campaign, marked in ((plan, curves), (other, theirs)):
        named = campaign.coverage().mark(SideRequests("customer", own.account_id.tolist()), marked)
        found.append(CapsAhead(campaign, "customer", named, spend, ahead, 0).curves({"budget": 0.01}).granted)
    np.testing.assert_allclose(found[1], found[0][order], rtol=1e-6)
    assert found[0].min() < 0.9


def test_when_the_budget_is_spent_a_control_that_costs_something_is_not_given(
    make_setting: Callable[..., Setting],
) -> None:
    setting = permuted(make_setting(requests=1500))
    terms = setting.campaign.terms("merchant")
    letter = replace(terms, costs=(80, *terms.costs[1:]))
    for own, given in ((terms, 0), (letter, NOTHING)):
        sides = {"merchant": own}
        campaign = replace(setting.campaign, sides=sides, budget=replace(setting.campaign.budget, limit=300))
        people = {"merchant": setting.model["merchant"]}
        model = OutcomeModel(campaign, people, seed=0)
        day = setting.day.take(np.flatnonzero(setting.day.side == "merchant"))
        spent = model.draw(day, np.ones(len(day), dtype=np.int32))
        ended = within_budget(campaign, spent, model)
        assert set(ended.level.tolist()) == {1, given}
        assert ended.cost.sum() <= 300
