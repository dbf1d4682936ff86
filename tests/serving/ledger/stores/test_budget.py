"""The budget of every store: what is left binds, and the propensity logged says how likely the answer was."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.stats import binomtest

from serving.protocol import RECORDED_REASONS
from shadowprice.decision import decide


def told(recorded):
    return [(each.decision.level, each.decision.incentive, each.decision.reason, each.repeat) for each in recorded]


def missing(recorded):
    """Probability of being given nothing at all."""
    return next((each.decision.propensity for each in recorded if each.decision.level == -1), 0.0)


def test_authorizations_never_exceed_the_budget_and_a_settled_one_frees_what_it_did_not_cost(open_ledger, kit):
    ledger = open_ledger(limit=200)
    first = ledger.authorize(kit.item("a", level=2), kit.item("b"), kit.item("c"))
    assert told(first) == [(2, 130, "tie", False), (1, 50, "tie", False), (0, 0, "budget_exhausted", False)]
    refused = first[2].decision
    assert (refused.response, refused.propensity, refused.propensities) == (0.125, 1.0, (1.0, 0.0, 0.0))
    assert told(ledger.authorize(kit.item("m", side="merchant"))) == [(-1, 0, "budget_exhausted", False)]
    assert told(ledger.authorize(kit.item("c", level=2))) == [(0, 0, "budget_exhausted", True)]
    assert ledger.settle(kit.event("a", 0)) == (1, 0)
    assert told(ledger.authorize(kit.item("d", level=2))) == [(2, 130, "tie", False)]


@pytest.mark.parametrize(("side", "left"), [("customer", 60), ("customer", 130), ("merchant", 30), ("merchant", 10)])
def test_the_logged_propensity_near_the_end_of_the_budget_is_the_frequency_of_the_answer(open_ledger, kit, side, left):
    ledger, names = open_ledger(limit=left), [f"r{number}" for number in range(120)]
    levels = kit.levels[side]
    value = np.array([0.5, 1.0, 1.0])[-len(levels) :]
    served = decide(
        np.tile(value[:, None], len(names)), np.zeros((len(levels), len(names))), [0.0], 0.4, names, exploration=0.5
    )
    shares = served.policy.propensities().T.tolist()
    recorded = []
    for row, name in enumerate(names):
        wanted = kit.item(
            name,
            side=side,
            level=int(served.level[row]),
            propensity=float(served.propensity[row]),
            propensities=shares[row],
        )
        recorded += ledger.authorize(wanted)
        if recorded[-1].decision.reserved:
            ledger.release(name)  # so that every request has the same budget left
    kept = ledger.store.find(names)
    answers = np.array([each.decision.level for each in recorded])
    assert ledger.store.totals().decisions.keys() <= {
        (side, level, reason) for level in (-1, 0, 1, 2) for reason in RECORDED_REASONS
    }
    for level in np.unique(answers):
        logged = {each.decision.propensity for each in recorded if each.decision.level == level}
        assert len(logged) == 1
        assert binomtest(int((answers == level).sum()), len(names), min(logged.pop(), 1.0)).pvalue > 1e-3
    for each in recorded:
        assert kept[each.decision.request_id] == each.decision
        assert each.decision.incentive <= left
        assert sum(each.decision.propensities) == pytest.approx(
            1 - each.decision.propensity if each.decision.level == -1 else 1 - missing(recorded)
        )
    (again,) = ledger.authorize(kit.item(names[0], side=side, level=0))
    assert (again.decision, again.repeat) == (recorded[0].decision, True)


def test_requests_of_one_call_see_the_budget_that_the_ones_before_leave(open_ledger, kit):
    shares = [0.25, 0.25, 0.5]
    ledger = open_ledger(limit=180)
    found = ledger.authorize(
        *(
            kit.item(name, level=level, propensity=shares[level], propensities=shares)
            for name, level in (("a", 2), ("b", 0), ("c", 1), ("d", 0), ("e", 2))
        )
    )
    told = [(each.decision.level, each.decision.propensity, each.decision.propensities) for each in found]
    cut, gone = (0.75, 0.25, 0.0), (1.0, 0.0, 0.0)
    assert told == [(2, 0.5, tuple(shares)), (0, 0.75, cut), (1, 0.25, cut), (0, 1.0, gone), (0, 1.0, gone)]
    assert [each.decision.reason for each in found] == [*["tie"] * 4, "budget_exhausted"]


def test_without_the_hard_stop_and_for_a_mean_the_budget_does_not_bind(open_ledger, kit):
    unbound = open_ledger(limit=0)
    assert told(unbound.authorize(kit.item("a", level=2), hard_stop=False)) == [(2, 130, "tie", False)]
    mean = open_ledger(limit=1.5, form="per_account")
    assert told(mean.authorize(kit.item("a", level=2))) == [(2, 130, "tie", False)]


def test_callers_at_once_are_each_answered_and_together_kept_within_the_budget(open_ledger, kit):
    ledger = open_ledger(limit=1000)

    def call(number):
        return ledger.authorize(kit.item(f"r{number % 40}", level=2), kit.item(f"s{number}"))

    with ThreadPoolExecutor(8) as callers:
        answers = list(callers.map(call, range(120)))
    assert [first.decision.request_id for first, _ in answers] == [f"r{number % 40}" for number in range(120)]
    assert sum(not first.repeat for first, _ in answers) == 40
    for number, (first, _) in enumerate(answers):
        assert first.decision.level == answers[number % 40][0].decision.level
    assert 870 < ledger.money()[0] <= 1000
