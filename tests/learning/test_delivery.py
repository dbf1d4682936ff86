"""A delivery from values to a certified, audited plan, and what stops it."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linear_sum_assignment

from shadowprice.allocation.exact_sizes import audit, solve_demands
from shadowprice.campaign import ONE_PLACE, Campaign, Segment, Terms, may_enter, places_left, places_of, risk_levels
from shadowprice.currency import Currency
from shadowprice.curves import Curves
from shadowprice.datasets.fund_tables import load
from shadowprice.datasets.funds import FundOptions, draw
from shadowprice.errors import InvalidInput, InvalidProblem, NotCertified
from shadowprice.evidence.sizes import check_sizes
from shadowprice.limits.usage import Usage
from shadowprice.pacing.places import COMPARED, DeliveryPlan, plan_places
from shadowprice.pacing.spend import CapUse
from shadowprice.price import PriceRecord
from shadowprice.tables import campaign_from_tables, labeled, offer_features, tolerances, validate_tables

OPTIONS = {"users": 240, "funds": 4, "deliveries": 4, "merchants": 30}


@pytest.fixture(scope="module")
def dataset():
    return load(seed=1, **OPTIONS)


@pytest.fixture(scope="module")
def campaign(dataset) -> Campaign:
    return campaign_from_tables(dataset.tables)


@pytest.fixture(scope="module")
def drawn():
    return draw(FundOptions(**OPTIONS), seed=1)


def planned(drawn, campaign: Campaign, tolerance=None, placed: Mapping[str, str] | None = None) -> DeliveryPlan:
    """The plan of the accounts that have no place; ``placed`` are those that have one, by their segment."""
    bearable = drawn.users["risk_tolerance"].to_numpy(dtype=float) if tolerance is None else tolerance
    allowed = may_enter(campaign.terms("customer").segments, bearable)
    curves = Curves(np.arange(4), drawn.value.astype(np.float32), allowed=allowed)
    taken = Counter((placed or {}).values())
    own = {ONE_PLACE: CapUse.of(dict.fromkeys(placed or {}, Usage(0, 1)), {})}
    of_segments = {entry.name: CapUse.of({"": Usage(0, taken[entry.name])}, {}) for entry in campaign.segments}
    names = drawn.users["account_id"].to_numpy(dtype=str)
    return plan_places(campaign, names, curves, own | of_segments, "m1")


def test_the_campaign_of_the_tables_is_the_delivery(dataset, drawn, campaign: Campaign) -> None:
    segments = campaign.terms("customer").segments
    assert [segment.demand for segment in segments] == drawn.demand.tolist()
    assert risk_levels(segments).tolist() == drawn.risk_level.tolist()
    assert campaign.terms("customer").incentives == (0, 0, 0, 0)
    assert campaign.priced == ("fund-0", "fund-1", "fund-2", "fund-3")
    assert Campaign.from_dict(json.loads(json.dumps(campaign.to_dict()))) == campaign
    known = tolerances(dataset.tables).reindex(drawn.users["account_id"])
    assert known.tolist() == drawn.users["risk_tolerance"].tolist()


def test_the_plan_is_the_assignment_of_replicated_seats_and_nobody_is_above_his_tolerance(drawn, campaign) -> None:
    found = planned(drawn, campaign)
    seats = np.repeat(np.arange(4), drawn.demand)
    value = np.where(drawn.allowed, drawn.value.astype(np.float32), -1e9)[seats].T
    rows, columns = linear_sum_assignment(value, maximize=True)
    assert found.plan.objective == pytest.approx(value[rows, columns].sum(), rel=1e-6)
    assert found.audit.sound
    table = found.table()
    assert table["segment"].value_counts().reindex([f"fund-{j}" for j in range(4)]).tolist() == drawn.demand.tolist()
    level = table["segment"].str[-1].astype(int).to_numpy()
    assert (drawn.risk_level[level] <= drawn.users["risk_tolerance"].to_numpy()).all()


def test_the_report_sets_the_methods_side_by_side(drawn, campaign: Campaign) -> None:
    found = planned(drawn, campaign).beside(COMPARED)
    report = json.loads(json.dumps(found.report()))
    by_name = {each["method"]: each for each in report["methods"]}
    assert list(by_name) == ["exact", "heuristic", "literal_heuristic", "priority"]
    assert by_name["exact"]["of_exact"] == 1
    assert all(by_name[name]["of_exact"] <= 1 + 1e-9 for name in ("heuristic", "priority"))
    assert all(each["seconds"] > 0 for each in by_name.values())
    assert by_name["heuristic"]["misplaced"] == by_name["exact"]["misplaced"] == 0
    page = found.markdown(campaign)
    assert "| priority |" in page
    assert re.search(r"one more place in fund-\d, and one fewer in fund-\d, brings \$", page)
    assert report["audit"]["sound"] is True


def test_the_price_record_holds_what_a_seat_of_each_segment_is_worth(drawn, campaign: Campaign) -> None:
    found = planned(drawn, campaign)
    record = PriceRecord.from_json(found.price(campaign, version=1, slot=0, solved_at=campaign.starts_at).to_json())
    assert tuple(record.prices) == campaign.priced
    assert min(record.prices.values()) == 0
    # At these prices the best segment of every account is the plan's: the certificate.
    score = np.where(drawn.allowed, found.value - np.array(list(record.prices.values()))[:, None], -np.inf)
    chosen = score[found.plan.segment, np.arange(score.shape[1])]
    assert (chosen >= score.max(axis=0) - 1e-3).all()


def test_an_unknown_tolerance_bears_only_what_anybody_may_have(drawn, campaign: Campaign) -> None:
    tolerance = drawn.users["risk_tolerance"].to_numpy(dtype=float)
    tolerance[:3] = np.nan
    free = tuple(replace(each, risk_level=None if j == 0 else each.risk_level) for j, each in
                 enumerate(campaign.terms("customer").segments))  # fmt: skip
    open_ = replace(campaign, sides={"customer": replace(campaign.terms("customer"), segments=free)})
    found = planned(drawn, open_, tolerance=tolerance)
    assert (found.plan.segment[:3] == 0).all()
    with pytest.raises(InvalidInput, match=r"allowed: every account needs a segment.*rows: 0, 1, 2"):
        planned(drawn, campaign, tolerance=tolerance)


def test_sizes_that_cannot_be_met_are_named_and_nothing_is_planned(drawn, campaign: Campaign) -> None:
    with pytest.raises(NotCertified, match=r"there is no plan: \['fund-2', 'fund-3'\]"):
        planned(drawn, campaign, tolerance=np.ones(len(drawn.users)))


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"segment": [0, 1, 1]}, "missing"),
        ({"segment": [0, -1, 1]}, "unplaced"),
        ({"allowed": [[1, 0, 1], [1, 1, 1]]}, "ineligible"),
        ({"allowed": [[1, 1, 1], [1, 1, 0]]}, "ineligible"),
        ({"account_id": ["a", "b", "a"]}, "repeated"),
    ],
)
def test_the_audit_finds_a_planted_fault(change: dict[str, object], fault: str) -> None:
    sound = {"account_id": ["a", "b", "c"], "segment": [0, 0, 1], "allowed": [[1, 1, 1], [0, 0, 1]]}
    assert audit(**sound, demands=[2, 1]).sound
    found = audit(**(sound | change), demands=[2, 1])
    assert not found.sound
    assert np.asarray(getattr(found, fault)).any() or getattr(found, fault).size


@pytest.mark.parametrize(
    ("segments", "message"),
    [
        ((Segment(name="a", demand=1),), "levels: must number the segments"),
        ((Segment(name="a", demand=1), Segment(name="a", demand=1)), "segments: names must differ"),
        ((Segment(name="none", demand=1), Segment(name="a", demand=1)), "'none' must come after the offers"),
    ],
)
def test_segments_that_cannot_be_are_refused(segments: tuple[Segment, ...], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Terms(levels=(0, 1), segments=segments)
    with pytest.raises(InvalidInput, match=r"segment.demand"):
        Segment(name="a", demand=-1)
    with pytest.raises(InvalidInput, match=r"segment.risk_level: must be empty: every account may be given nothing"):
        Segment(name="none", demand=1, risk_level=2)


def test_a_fund_without_a_demand_is_named(dataset) -> None:
    offer = dataset.tables.offer.copy()
    offer.loc[2, "demand"] = pd.NA
    with pytest.raises(InvalidInput, match=r"offer.demand: is missing.*rows: 2"):
        campaign_from_tables(dataset.tables.replaced(offer=offer))


def test_sizes_are_checked_before_anything_is_learned(dataset, campaign: Campaign) -> None:
    """The sum and the tolerances of the accounts, with the sentences of a plan."""
    offer = dataset.tables.offer
    fewer = dataset.tables.replaced(offer=offer.assign(demand=offer["demand"] - [5, 0, 0, 0]))
    with pytest.raises(InvalidProblem, match=r"demands: must sum to the number of accounts, 240, got 235; a segment"):
        check_sizes(fewer, campaign_from_tables(fewer))
    bold = dataset.tables.replaced(account=dataset.tables.account.assign(risk_tolerance=1))
    with pytest.raises(InvalidProblem, match=r"demands: there is no plan: \['fund-2', 'fund-3'\]"):
        check_sizes(bold, campaign)
    check_sizes(dataset.tables, campaign)


def test_the_accounts_that_are_left_get_none(dataset) -> None:
    """An offer named none without a demand takes the rest; it is no level of a network, and its value is 0."""
    offer = pd.concat(
        [
            dataset.tables.offer.assign(demand=lambda rows: rows["demand"] // 2),
            pd.DataFrame([{"offer_id": "none", "side": "customer", "kind": "fund", "order_index": 4}]),
        ],
        ignore_index=True,
    )
    exposure = dataset.tables.exposure.copy()
    exposure.loc[:9, "offer_id"] = "none"
    frames = dataset.tables.as_dict() | {"offer": offer, "exposure": exposure}
    tables = validate_tables(frames)
    segments = campaign_from_tables(tables).terms("customer").segments
    assert sum(each.demand for each in segments) == OPTIONS["users"]
    assert segments[-1].demand == OPTIONS["users"] - (dataset.tables.offer["demand"] // 2).sum()
    check_sizes(tables, campaign_from_tables(tables))
    assert len(labeled(tables, "customer")) == len(labeled(dataset.tables, "customer")) - 10
    assert offer_features(tables, "customer")["level"].tolist() == [0, 1, 2, 3]


def test_a_price_is_what_one_more_place_changes(drawn, campaign: Campaign) -> None:
    """Solved again with the place moved: the price lies between the gain of one more and the loss of one fewer."""
    value, sizes = drawn.value.astype(np.float32), drawn.demand
    found = planned(drawn, campaign)
    places = places_of(
        campaign.segments, dict(zip(campaign.priced, found.plan.prices.tolist(), strict=True)), Currency()
    )
    free = next(j for j, each in enumerate(places) if each.price == 0)
    assert sum(each.meaning.startswith("one more place") for each in places) == 3
    for j, place in enumerate(places):
        step = np.eye(4, dtype=int)[j] - np.eye(4, dtype=int)[free]
        more, fewer = (solve_demands(value, sizes + sign * step, drawn.allowed).objective for sign in (1, -1))
        slack = 1e-6 * found.plan.objective
        assert more - found.plan.objective <= place.price + slack
        assert place.price <= found.plan.objective - fewer + slack


def test_places_that_are_left_take_the_rest_of_the_accounts() -> None:
    given = (Segment(name="a", demand=3), Segment(name="b", demand=2))
    left = places_left(given, np.array([3, 1]), 4)
    assert [(each.name, each.demand) for each in left] == [("a", 0), ("b", 1), ("none", 3)]
    assert places_left(given, np.array([1, 1]), 3) == (replace(given[0], demand=2), replace(given[1], demand=1))


def test_sizes_are_exact_at_the_end_of_a_window_that_is_solved_again(drawn, campaign: Campaign, tmp_path) -> None:
    """Accounts come early or late and with other values than planned; strangers take places too.

    The ledger's rule: a full segment is refused, and whoever was refused asks again. After every batch the price is
    that of the places left, with a certificate.
    """
    random = np.random.default_rng(0)
    names, value = drawn.users["account_id"].to_numpy(dtype=str), drawn.value.astype(np.float32)
    asked = value * np.exp(0.3 * random.normal(size=value.shape)).astype(np.float32)
    order, sizes = random.permutation(names.size), drawn.demand.copy()
    segment = np.full(names.size, -1)
    batches = [*np.array_split(order, [10, 150]), *([None] * 40)]
    for batch in batches:
        waiting = np.flatnonzero(segment < 0)
        if not waiting.size:
            break
        placed = {names[i]: f"fund-{segment[i]}" for i in np.flatnonzero(segment >= 0)}
        plan = planned(drawn, campaign, placed=placed)
        assert plan.account_id.tolist() == names[waiting].tolist()
        assert plan.plan.gap <= campaign.gap_limit
        for i in (waiting if batch is None else batch).tolist():
            score = np.where(drawn.allowed[:, i], asked[:, i] - plan.plan.prices[:4], -np.inf)
            wish = int(score.argmax())
            if segment[i] < 0 and sizes[wish]:
                segment[i] = wish
                sizes[wish] -= 1
    assert (segment >= 0).all()
    np.testing.assert_array_equal(np.bincount(segment, minlength=4), drawn.demand)
    assert drawn.allowed[segment, np.arange(names.size)].all()
    best = solve_demands(asked, drawn.demand, drawn.allowed).objective
    earned = asked[segment, np.arange(names.size)].astype(float).sum()
    assert 0.95 * best < earned <= best
