"""A campaign's arithmetic, written out by hand, and what it refuses."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest

from shadowprice.arms import Arm, Experiment, Holdout
from shadowprice.campaign import AnswerShares, Budget, Campaign, Terms
from shadowprice.campaign.long_term import LongTerm
from shadowprice.campaign.percent import Percent
from shadowprice.currency import Currency
from shadowprice.errors import InvalidInput

START = datetime(2026, 3, 1, tzinfo=UTC)
RESPONSE = np.array([[0.25, 0.5], [0.5, 1.5]], dtype=np.float32)


def campaign(**changes: Any) -> Campaign:
    fields: dict[str, Any] = {
        "name": "spring-1",
        "sides": {
            "customer": Terms(levels=(100, 200)),
            "merchant": Terms(levels=(10, 30), cost_basis="on_grant", weight=0.5),
        },
        "budget": Budget(form="per_response", limit=120.0),
        "starts_at": START,
    }
    return Campaign(**(fields | changes))


def test_paid_on_response_costs_level_times_response_over_responses() -> None:
    terms = Terms(levels=(100, 200), weight=2.0)
    np.testing.assert_array_equal(terms.cost(RESPONSE), [[25, 50], [100, 300]])
    np.testing.assert_array_equal(terms.measure(RESPONSE), RESPONSE)
    np.testing.assert_array_equal(terms.value(RESPONSE), 2.0 * RESPONSE)


def test_paid_on_grant_costs_the_level_over_requests() -> None:
    terms = Terms(levels=(100, 200), cost_basis="on_grant")
    np.testing.assert_array_equal(terms.cost(RESPONSE), [[100, 100], [200, 200]])
    np.testing.assert_array_equal(terms.measure(RESPONSE), np.ones((2, 2)))


def test_a_merchants_units_are_paid_and_reserved_up_to_the_most_that_the_terms_say() -> None:
    terms = Terms(levels=(100, 200), most_units=3)
    np.testing.assert_array_equal(terms.paid_units(np.array([0.0, 0.5, 3.0, 7.25])), [0.0, 0.5, 3.0, 3.0])
    assert (terms.reserved, terms.incentives) == ((300, 600), (100, 200))
    np.testing.assert_array_equal(terms.cost(RESPONSE), Terms(levels=(100, 200)).cost(RESPONSE))
    granted = Terms(levels=(100, 200), cost_basis="on_grant")
    np.testing.assert_array_equal(granted.paid_units(np.array([0.0, 7.25])), [1.0, 1.0])
    assert granted.reserved == (100, 200)


def test_only_a_budget_per_response_earns_an_allowance_by_the_level() -> None:
    plan = campaign()
    np.testing.assert_array_equal(plan.net_cost("customer", RESPONSE), [[25 - 30, 50 - 60], [100 - 60, 300 - 180]])
    np.testing.assert_array_equal(plan.net_cost("merchant", RESPONSE), [[10 - 120] * 2, [30 - 120] * 2])
    for form in ("total", "per_account"):
        other = campaign(budget=Budget(form=form, limit=120))  # type: ignore[arg-type]
        np.testing.assert_array_equal(other.net_cost("customer", RESPONSE), [[25, 50], [100, 300]])


def test_cost_is_computed_in_double_precision_and_never_shared_with_the_input() -> None:
    response = np.full((1, 1), 0.1, dtype=np.float32)
    cost = Terms(levels=(3,)).cost(response)
    assert cost.dtype == np.float64
    granted = Terms(levels=(3,), cost_basis="on_grant").cost(np.zeros((1, 2)))
    granted[0, 0] = 7
    assert granted[0, 1] == 3


def test_slots_are_whole_hours_from_the_start() -> None:
    plan = campaign(hours=5)
    assert plan.ends_at == START + timedelta(hours=5)
    assert plan.slot(START) == 0
    assert plan.slot(START + timedelta(minutes=59, seconds=59)) == 0
    assert plan.slot(START + timedelta(hours=1)) == 1
    assert plan.slot(START - timedelta(seconds=1)) == -1
    tokyo = timezone(timedelta(hours=9))
    assert plan.slot((START + timedelta(hours=3, minutes=30)).astimezone(tokyo)) == 3


def test_the_start_is_kept_in_utc() -> None:
    tokyo = timezone(timedelta(hours=9))
    assert (
        campaign(starts_at=datetime(2026, 3, 1, 9, tzinfo=tokyo)).starts_at.isoformat() == "2026-03-01T00:00:00+00:00"
    )


def test_a_campaign_survives_json() -> None:
    plan = campaign(labels={"owner": "growth"}, gap_limit=1e-4, hours=7)
    assert Campaign.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan
    several = campaign(sides={"merchant": Terms(levels=(10, 30), most_units=4)})
    assert several.to_dict()["sides"]["merchant"]["most_units"] == 4
    assert Campaign.from_dict(json.loads(json.dumps(several.to_dict()))) == several
    stated = campaign(expected_requests=30_000, budget=Budget(limit=100), late_reserve=3)
    assert Campaign.from_dict(json.loads(json.dumps(stated.to_dict()))) == stated
    # Without it one unit is reserved.
    assert "most_units" not in plan.to_dict()["sides"]["merchant"]
    assert campaign().terms("merchant").most_units == 1


def experiment(**changes: object) -> Experiment:
    arms = (Arm(name="holdout", kind="holdout", share=1000), Arm(name="explore", kind="explore", share=2000))
    return Experiment(**({"arms": arms, "salt": "spring"} | changes))  # type: ignore[arg-type]


def test_a_holdout_is_part_of_the_file_and_a_campaign_without_one_has_the_shares_of_before() -> None:
    plain = campaign(experiment=experiment(), exploration=0.1)
    assert "holdout" not in plain.to_dict()
    held, drawn = plain.experiment.kind_share("holdout"), plain.experiment.kind_share("explore")
    policy = 1.0 - held - drawn
    assert plain.answer_shares == AnswerShares(chosen=policy * (1.0 - 0.1), drawn=drawn + policy * 0.1, held=held)
    # A number of a pipeline's JSON has a point.
    out = plain.with_fields({"holdout": {"key": "company", "share": 500.0}})
    assert Campaign.from_dict(json.loads(json.dumps(out.to_dict()))) == out
    shares = out.answer_shares
    assert shares.chosen + shares.drawn + shares.held == pytest.approx(1.0)
    assert shares.held == pytest.approx(0.05 + 0.95 * held)
    assert out.arms == (*plain.arms, "company_holdout")
    assert out.without_arms() == campaign()
    with pytest.raises(InvalidInput, match=r"holdout\.share"):
        campaign(holdout=Holdout(key="company", share=0))
    with pytest.raises(InvalidInput, match="none of"):
        Arm(name="company_holdout", kind="holdout", share=5)


def test_weights_of_explored_levels_are_part_of_the_file_and_a_side_without_draws_uniformly() -> None:
    names = campaign().offer_ids["customer"]
    weights = {"customer": {name: 1.0 + place for place, name in enumerate(reversed(names))}}
    plan = campaign().with_fields({"exploration": 0.1, "exploration_weights": weights})
    assert Campaign.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan
    assert plan.draw_weights("customer").tolist() == [float(place) for place in range(len(names), 0, -1)]
    assert set(plan.draw_weights("merchant").tolist()) == {1.0}
    assert "exploration_weights" not in campaign().to_dict()
    for wrong, field, reason in (
        ({"customer": {names[0]: 1.0}}, "customer", r"must give each offer a weight: .*without one: \['"),
        ({"customer": weights["customer"] | {"x": 1.0}}, "customer", r"unknown: \['x'\]"),
        ({"customer": weights["customer"] | {names[0]: 0.0}}, f"customer.{names[0]}", "must be a positive number"),
        ({"customer": weights["customer"] | {names[0]: "a"}}, f"customer.{names[0]}", "must be a number"),
        ({"courier": {}}, "courier", "is no side of the campaign"),
    ):
        with pytest.raises(InvalidInput, match=reason) as refused:
            campaign().with_fields({"exploration_weights": wrong})
        assert refused.value.field == f"campaign.exploration_weights.{field}"


def test_an_experiment_is_part_of_the_file_and_a_campaign_without_one_is_written_as_before() -> None:
    plan = campaign(experiment=experiment().raised("holdout", 1500), exploration=0.1)
    assert Campaign.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan
    assert "experiment" not in campaign().to_dict()
    assert campaign(exploration=0.1).answer_shares == AnswerShares(chosen=0.9, drawn=0.1, held=0.0)
    shares = plan.answer_shares
    assert (shares.held, shares.drawn, shares.chosen) == pytest.approx((0.15, 0.2 + 0.065, 0.585))
    broken = plan.to_dict()
    broken["experiment"]["arms"][0]["kind"] = "control"
    with pytest.raises(InvalidInput, match=r"experiment\.arms\.kind"):
        Campaign.from_dict(broken)
    broken["experiment"] = {"arms": [{"name": "a"}], "salt": "s"}
    with pytest.raises(InvalidInput, match="is not a campaign"):
        Campaign.from_dict(broken)


@pytest.mark.parametrize(
    ("field", "make"),
    [
        ("levels", lambda: Terms(levels=())),
        ("levels", lambda: Terms(levels=(2, 1))),
        ("levels", lambda: Terms(levels=(-1, 1))),
        ("levels", lambda: Terms(levels=(0.5, 1))),  # type: ignore[arg-type]
        ("cost_basis", lambda: Terms(levels=(1,), cost_basis="later")),  # type: ignore[arg-type]
        ("weight", lambda: Terms(levels=(1,), weight=0.0)),
        ("weight", lambda: Terms(levels=(1,), weight=float("nan"))),
        ("most_units", lambda: Terms(levels=(1,), most_units=0)),
        ("most_units", lambda: Terms(levels=(1,), most_units=1.5)),  # type: ignore[arg-type]
        ("most_units", lambda: Terms(levels=(1,), most_units=True)),
        ("most_units", lambda: Terms(levels=(1,), cost_basis="on_grant", most_units=2)),
        ("most_units", lambda: Terms(levels=(1, 2**52), most_units=3)),
        (
            "campaign.sides.customer.most_units",
            lambda: campaign(sides={"customer": Terms(levels=(1,), most_units=2)}),
        ),
        ("campaign.expected_requests", lambda: campaign(expected_requests=0)),
        ("campaign.expected_requests", lambda: campaign(expected_requests=1.5)),
        ("offers", lambda: Terms(levels=(1, 2), offers=("one", "one"))),
        ("offers", lambda: Terms(levels=(1, 2), offers=("one",))),
        ("offers", lambda: Terms(levels=(1, 2), offers=("one", "two", "three"))),
        ("offers", lambda: Terms(levels=(1, 2), offers=("one", ""))),
        (
            "campaign.experiment.arms.share",
            lambda: campaign(experiment=experiment(arms=(Arm(name="holdout", kind="holdout", share=10_000),))),
        ),
        ("campaign.late_reserve", lambda: campaign(late_reserve=-1)),
        ("campaign.late_reserve", lambda: campaign(late_reserve=1.5)),
        ("campaign.late_reserve", lambda: campaign(late_reserve=10**12)),
        (
            "campaign.late_reserve",
            lambda: campaign(budget=Budget(form="per_account", limit=50.0), late_reserve=1),
        ),
        ("budget.name", lambda: Budget(name="", limit=1)),
        ("budget.form", lambda: Budget(form="weekly", limit=1)),  # type: ignore[arg-type]
        ("budget.limit", lambda: Budget(limit=-1)),
        ("budget.limit", lambda: Budget(limit=float("inf"))),
        ("budget.limit", lambda: Budget(limit=1.5)),
        ("campaign.name", lambda: campaign(name="")),
        ("campaign.name", lambda: campaign(name="../x")),
        ("campaign.name", lambda: campaign(name='a"b')),
        ("campaign.sides", lambda: campaign(sides={})),
        ("campaign.sides", lambda: campaign(sides={"courier": Terms(levels=(1,))})),
        ("campaign.starts_at", lambda: campaign(starts_at=datetime(2026, 3, 1))),
        ("campaign.starts_at", lambda: campaign(starts_at=datetime.max.replace(tzinfo=timezone(timedelta(hours=-5))))),
        ("campaign.starts_at", lambda: campaign(starts_at=datetime(1, 1, 1, tzinfo=UTC))),
        ("campaign.hours", lambda: campaign(hours=0)),
        ("campaign.hours", lambda: campaign(hours=24 * 366 + 1)),
        ("campaign.expected_requests", lambda: campaign(expected_requests=10**400)),
        ("budget.limit", lambda: Budget(limit=10**400)),
        ("campaign.gap_limit", lambda: Campaign.from_dict(campaign().to_dict() | {"gap_limit": 10**400})),
        ("campaign.gap_limit", lambda: Campaign.from_dict(campaign().to_dict() | {"gap_limit": "much"})),
        ("campaign", lambda: Campaign.from_dict(campaign().to_dict() | {"starts_at": "9999-13-31"})),
        ("side", lambda: campaign(sides={"customer": Terms(levels=(1,))}).terms("merchant")),
        (
            "campaign.budget",
            lambda: Campaign.from_dict({k: v for k, v in campaign().to_dict().items() if k != "budget"}),
        ),
    ],
)
def test_a_wrong_field_is_named(field: str, make: Callable[[], object]) -> None:
    with pytest.raises(InvalidInput) as caught:
        make()
    assert caught.value.field == field


def test_a_mean_may_be_a_fraction_of_a_minor_unit() -> None:
    assert Budget(form="per_account", limit=1.5).limit == 1.5


def test_the_policy_of_a_campaign_is_kept_and_may_be_set_besides_the_table() -> None:
    found = campaign().with_fields({"policy": "flat"})
    assert found.policy == "flat"
    assert Campaign.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    assert "policy" not in campaign().to_dict()
    with pytest.raises(InvalidInput, match=r"campaign\.policy: must be one of .*'flat'.* got 'even'"):
        campaign(policy="even")


EMAILS: dict[str, Any] = {"levels": (0, 1, 2), "offers": ("none", "mens", "womens"), "amounts": (0, 0, 0)}


def test_costs_are_what_the_budget_pays_and_amounts_what_the_account_is_offered() -> None:
    terms = Terms(**EMAILS, costs=(0, 65, 2), ordered=False, most_units=3)
    assert (terms.incentives, terms.unit_costs, terms.reserved) == ((0, 0, 0), (0, 65, 2), (0, 195, 6))
    response = np.array([[0.1], [0.3], [0.2]])
    np.testing.assert_allclose(terms.cost(response), [[0.0], [19.5], [0.4]])
    granted = Terms(levels=(0, 500), costs=(0, 300), cost_basis="on_grant")
    assert granted.incentives == (0, 500)
    np.testing.assert_array_equal(granted.cost(np.ones((2, 2))), [[0, 0], [300, 300]])


def test_a_campaign_of_offers_survives_its_json() -> None:
    sides = {"customer": Terms(**EMAILS, costs=(0, 1, 1), ordered=False)}
    plan = campaign(sides=sides, budget=Budget(limit=384), currency="offers")
    again = Campaign.from_dict(json.loads(json.dumps(plan.to_dict())))
    assert again == plan
    assert again.offer_ids == {"customer": ("none", "mens", "womens")}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"costs": (0, 1)}, "costs"),
        ({"costs": (0, -1, 1)}, "costs"),
        ({"costs": (0, 0.5, 1)}, "costs"),
        ({"amounts": (0, 0)}, "amounts"),
        ({"levels": (0, 5, 9)}, "amounts"),
        ({"offers": ()}, "amounts"),
        ({"ordered": "no"}, "ordered"),
        ({"amounts": (), "ordered": False}, "amounts"),
        ({"costs": (0, 10**15, 1), "most_units": 10**3}, "most_units"),
    ],
)
def test_terms_that_do_not_fit_together_are_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{field}"):
        Terms(**EMAILS | {"ordered": False, "costs": (0, 1, 1)} | changes)


def test_a_long_term_value_takes_the_place_of_amounts_and_is_named_as_predicted() -> None:
    plan = LongTerm("x_value_90", ("amount", "x_visits"))
    sides = {"customer": Terms(levels=(0, 500), worth="amount")}
    short = campaign(sides=sides, objective="margin")
    own = replace(short, long_term=plan)
    assert Campaign.from_dict(json.loads(json.dumps(own.to_dict()))) == own
    assert "long_term" not in short.to_dict()
    assert (short.earned, own.earned) == ("margin", "predicted long-term margin")
    with pytest.raises(InvalidInput, match=r"campaign\.sides\.customer\.worth: must be amount"):
        replace(own, sides={"customer": replace(sides["customer"], worth="x_margin")})
    numbered = {"levels": (0, 1), "amounts": (0, 1000), "offers": ("none", "ten"), "worth": "amount"}
    with pytest.raises(InvalidInput, match=r"campaign\.long_term: .* needs the amounts of orders"):
        replace(own, sides={"customer": Terms(**numbered, percent=(None, Percent(share=20)))})


def test_least_spend_and_validity_of_offers_stand_beside_their_names_and_cost_nothing() -> None:
    plain = {"levels": (400, 400), "amounts": (400, 400), "offers": ("v1", "v2"), "ordered": False}
    terms = Terms(**plain, least_spends=(2000, 0), valid_hours=(0, 36))
    assert terms.names(Currency()) == ("v1 ($4.00 from $20.00)", "v2 ($4.00, 36 hours)")
    assert Terms.from_dict(json.loads(json.dumps(terms.to_dict()))) == terms
    assert Terms(**plain).names(Currency()) == ("v1", "v2")
    assert not {"least_spends", "valid_hours"} & set(Terms(**plain).to_dict()), "older files stay as they are"
    np.testing.assert_array_equal(terms.cost(RESPONSE), Terms(**plain).cost(RESPONSE))
    by_amount = Terms(levels=(0, 500), least_spends=(0, 3000), valid_hours=(0, 24))
    assert by_amount.names(Currency()) == ("$0.00", "$5.00 from $30.00, 1 day")
    numbered = {"levels": (0, 1), "amounts": (0, 1000), "offers": ("none", "ten")}
    percent = Terms(**numbered, percent=(None, Percent(share=20, least=3000)), valid_hours=(0, 48))
    assert percent.names(Currency()) == ("none", "20 % up to $10.00 from $30.00, 2 days")
    for wrong in ({"least_spends": (1,)}, {"least_spends": (-1, 0)}, {"valid_hours": (1.5, 0)}):
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            Terms(**plain, **wrong)
    with pytest.raises(InvalidInput, match="stands in percent"):
        Terms(**numbered, percent=percent.percent, least_spends=(0, 1))
