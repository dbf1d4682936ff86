"""Sizes of a delivery in either store: as hard as a budget, one place of an account, and the same after a recovery."""

from types import SimpleNamespace

import numpy as np
import pytest

from serving.ledger.api.messages import Unprocessable
from serving.ledger.log import LogWriter
from serving.recover import recover
from shadowprice.campaign import Budget, Segment, Terms
from shadowprice.pacing.decision_log.served import read_log

SIZES = (2, 3)
SEGMENTS = tuple(Segment(name=f"fund-{j}", demand=size) for j, size in enumerate(SIZES))
NONE = Segment(name="none", demand=0)


def delivery(segments=SEGMENTS):
    terms = Terms(levels=tuple(range(len(segments))), cost_basis="on_grant", segments=segments)
    return {"sides": {"customer": terms}, "budget": Budget(name="none", limit=0)}


def wish(kit, name, level, account_id, segments=SEGMENTS, further=()):
    shares = [float(j == level) for j in range(len(segments))]
    choice = {"level": level, "incentive": 0, "expected_cost": 0.0, "propensity": 1.0, "propensities": shares}
    # The item's own incentive is of other levels.
    made = kit.item(name, level=0, account_id=account_id, response_unpaid=9.0, reason="optimal")
    if further:
        choice |= {"further_levels": list(further), "further_responses": [10.0 + each for each in further]}
    return SimpleNamespace(**(vars(made) | choice))


def given(recorded):
    return [(each.decision.level, each.decision.reason, each.decision.limited_by) for each in recorded]


def test_a_full_segment_is_refused_within_one_call_and_one_account_has_one_place(open_ledger, kit):
    ledger = open_ledger(**delivery())
    answers = ledger.authorize(*(wish(kit, f"r{k}", 0, f"a{k}") for k in range(4)))
    assert given(answers) == [(0, "optimal", "")] * 2 + [(-1, "budget_exhausted", "fund-0")] * 2
    refused = answers[2].decision
    assert (refused.propensity, refused.propensities, refused.response) == (1.0, (0.0, 0.0), 0.0)
    # The store keeps what it answered, and a request that comes twice takes no second place.
    assert ledger.authorize(wish(kit, "r2", 0, "a2"))[0].decision == refused
    assert given(ledger.authorize(wish(kit, "again", 1, "a0"))) == [(-1, "capped", "one-place")]
    assert given(ledger.authorize(*(wish(kit, f"s{k}", 1, f"b{k}") for k in range(4)))) == [
        *[(1, "optimal", "")] * 3,
        (-1, "budget_exhausted", "fund-1"),
    ]


def test_neither_an_outcome_nor_an_expiry_gives_a_place_back(open_ledger, kit):
    ledger = open_ledger(**delivery(), authorization_ttl_hours=1)
    ledger.authorize(wish(kit, "r0", 0, "a0"), wish(kit, "r1", 0, "a1"))
    ledger.settle(kit.event("r0", 0, redeemed=True))
    ledger.at = ledger.at.replace(hour=20)
    ledger.sweep()
    assert given(ledger.authorize(wish(kit, "r3", 0, "a3"))) == [(-1, "budget_exhausted", "fund-0")]
    assert ledger.store.usage(["fund-0||"])["fund-0||"].uses == 2


def test_who_finds_no_place_is_given_none_where_the_delivery_has_it(open_ledger, kit):
    segments = (*SEGMENTS, NONE)
    ledger = open_ledger(**delivery(segments))
    items = [wish(kit, f"r{k}", 0, f"a{k}", segments) for k in range(3)]
    items.append(wish(kit, "r3", 2, "a2", segments))
    # None has no size: it takes whoever is left.
    assert given(ledger.authorize(*items)) == [
        *[(0, "optimal", "")] * 2,
        (2, "budget_exhausted", "fund-0"),
        (2, "optimal", ""),
    ]
    assert ledger.store.find(["r2"])["r2"].propensities == (0.0, 0.0, 1.0)
    assert given(ledger.authorize(wish(kit, "r4", 1, "a2", segments))) == [(1, "optimal", "")]


def test_a_request_after_a_full_segment_gets_the_next_one_with_a_place(open_ledger, kit):
    segments = (*SEGMENTS, Segment(name="fund-2", demand=1), NONE)
    ledger = open_ledger(**delivery(segments))
    wishes = [wish(kit, f"r{k}", 0, f"a{k}", segments, further=(2, 1)) for k in range(7)]
    answers = ledger.authorize(*wishes[:3], wish(kit, "again", 0, "a0", segments, further=(2, 1)), *wishes[3:])
    assert given(answers) == [
        *[(0, "optimal", "")] * 2,
        (2, "budget_exhausted", "fund-0"),
        # The account has its place, whatever is free; a segment that is full is named first.
        (3, "budget_exhausted", "fund-0"),
        *[(1, "budget_exhausted", "fund-0")] * 3,
        (3, "budget_exhausted", "fund-0"),
    ]
    second = answers[2].decision
    assert (second.response, second.incentive, second.propensity) == (12.0, 0, 1.0)
    assert second.propensities == (0.0, 0.0, 1.0, 0.0)
    assert ledger.authorize(wishes[2])[0].decision == second
    assert {name: use.uses for name, use in ledger.store.usage(["fund-0||", "fund-1||", "fund-2||"]).items()} == {
        "fund-0||": 2,
        "fund-1||": 3,
        "fund-2||": 1,
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"further_levels": [2]}, "each with a response"),
        ({"further_responses": []}, "each with a response"),
        ({"further_responses": None}, "needs further_responses"),
    ],
)
def test_further_levels_that_cannot_be_are_refused(open_ledger, kit, changes, message):
    ledger = open_ledger(**delivery())
    made = wish(kit, "r", 0, "a", further=(1,))
    given_ = SimpleNamespace(**{name: value for name, value in (vars(made) | changes).items() if value is not None})
    with pytest.raises(Unprocessable, match=message):
        ledger.authorize(given_)
    with pytest.raises(Unprocessable, match="only a delivery has further segments"):
        open_ledger().authorize(
            SimpleNamespace(**(vars(kit.item("r0")) | {"further_levels": [], "further_responses": []}))
        )


def test_any_order_of_wishes_fills_no_segment_above_its_size(open_ledger, kit):
    """Random wishes in random calls against a count in this test."""
    random = np.random.default_rng(0)
    ledger = open_ledger(**delivery())
    free, placed = list(SIZES), set()
    for call in range(12):
        wishes = [(f"r{call}-{k}", int(random.integers(2)), f"a{random.integers(9)}") for k in range(3)]
        answers = ledger.authorize(*(wish(kit, *each) for each in wishes))
        for (_, level, account), answer in zip(wishes, answers, strict=True):
            fits = free[level] > 0 and account not in placed
            assert (answer.decision.level == level) == fits
            if fits:
                free[level] -= 1
                placed.add(account)
    assert free == [0, 0]


def test_a_recovered_ledger_has_the_places_of_the_log(open_ledger, kit, tmp_path):
    ledger = open_ledger(**delivery())
    ledger.authorize(*(wish(kit, f"r{k}", 0, f"a{k}") for k in range(3)))
    LogWriter(ledger.store, tmp_path / "log").write()
    fresh = open_ledger(**delivery())
    recover(fresh.store, fresh.campaign, read_log(tmp_path / "log"))
    assert given(fresh.authorize(wish(kit, "new", 0, "x"), wish(kit, "old", 1, "a0"), wish(kit, "s", 1, "a2"))) == [
        (-1, "budget_exhausted", "fund-0"),
        (-1, "capped", "one-place"),
        (1, "optimal", ""),
    ]
