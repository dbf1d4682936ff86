"""Decisions of the predictor, from features to the answer."""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from local_ledger import NoLedger, NoReader, TableReader, customers

from serving.protocol import Requests
from shadowprice.campaign import SIDES, Budget, Terms
from shadowprice.decision import decide
from shadowprice.errors import InvalidInput, Unavailable


def test_a_call_with_both_sides_gives_each_what_a_call_of_its_own_gives(build, kit):
    sides = ["customer", "merchant", "merchant", "customer", "merchant"]
    accounts = ["c1", "m1", "m2", "c2", "m3"]
    ids = [f"r{i}" for i in range(5)]
    mixed = build()[0].answer(Requests(ids, accounts, sides))
    for side in SIDES:
        rows = [i for i in range(5) if sides[i] == side]
        alone = build()[0].answer(Requests([ids[i] for i in rows], [accounts[i] for i in rows], [side] * len(rows)))
        for name in ("incentive", "level", "response", "expected_cost", "propensity"):
            np.testing.assert_array_equal(getattr(mixed, name)[rows], getattr(alone, name))


def test_what_is_answered_is_what_decide_says_of_the_heads_curve(build, campaign, heads, kit):
    accounts = [f"c{i}" for i in range(40)]
    frame = kit.embeddings().set_index(["side", "account_id"])["embedding"]
    price = kit.price(price=0.006)
    answers = build(price=price)[0].answer(customers(*accounts))
    curve = heads["customer"].response(np.stack([frame["customer", name] for name in accounts]))
    paid = np.array([0, 50, 80, 130])[:, None] * curve.astype(float)
    expected = decide(curve, paid, [0.006], 0.4, [f"r{i}" for i in range(40)])
    np.testing.assert_array_equal(answers.level, expected.level)
    np.testing.assert_array_equal(answers.expected_cost, paid[expected.level, np.arange(40)])
    assert len(set(answers.level.tolist())) > 1


def test_an_unknown_account_gets_the_populations_decision_and_says_cold_start(build, heads, campaign):
    predictor, registry = build()
    answers = predictor.answer(customers("c1", "stranger", "c2"))
    curve = heads["customer"].response(heads["customer"].default_embedding[None])
    assert answers.response[1] == curve[answers.level[1], 0]
    assert answers.reason[1] == "cold_start"
    assert answers.reason[0] != "cold_start"
    assert not answers.degraded
    assert registry.get_sample_value("shadowprice_cold_start_total", {"campaign": "spring", "side": "customer"}) == 1
    age = registry.get_sample_value("shadowprice_feature_age_seconds", {"campaign": "spring", "side": "customer"})
    assert 300 <= age < 400


def test_each_account_is_read_once_however_often_it_asks(build, kit):
    reader = TableReader(kit.embeddings())
    answers = build(reader=reader)[0].answer(customers("c1", "c2", "c1", "c1"))
    assert reader.reads == [["c1", "c2"]]
    assert answers.response[0] != answers.response[1]


def test_a_stale_price_still_decides_degraded(build, kit):
    now = datetime.now(UTC)
    old = kit.price(solved_at=now - timedelta(hours=3), expires_at=now - timedelta(seconds=1))
    predictor, registry = build(price=old)
    answers = predictor.answer(customers("c1", "stranger"))
    fresh = build()[0].answer(customers("c1", "stranger"))
    assert answers.reason == ["stale_price", "stale_price"]
    assert answers.degraded
    assert answers.price_age_seconds == pytest.approx(3 * 3600, abs=60)
    np.testing.assert_array_equal(answers.level, fresh.level)
    labels = {"campaign": "spring", "reason": "stale_price"}
    assert registry.get_sample_value("shadowprice_degraded_total", labels) == 1


def test_a_feature_store_that_fails_degrades_every_answer_to_cold_start(build, heads):
    predictor, registry = build(reader=NoReader())
    answers = predictor.answer(customers("c1", "c2"))
    assert answers.reason == ["cold_start", "cold_start"]
    assert answers.degraded
    labels = {"campaign": "spring", "reason": "features"}
    assert registry.get_sample_value("shadowprice_degraded_total", labels) == 1


def test_embeddings_of_another_width_count_as_a_failed_store(build):
    class Wider:
        def embeddings(self, side, account_ids):
            return np.zeros((len(account_ids), 7), np.float32), np.zeros(len(account_ids))

    assert build(reader=Wider())[0].answer(customers("c1")).degraded


def test_without_the_ledger_nothing_is_authorized_unless_that_is_configured(build):
    with pytest.raises(Unavailable, match="without authorization"):
        build(ledger=NoLedger())[0].answer(customers("c1"))
    predictor, registry = build(ledger=NoLedger(), authorization_required=False)
    answers = predictor.answer(customers("c1"))
    assert answers.degraded
    assert answers.level[0] == build()[0].answer(customers("c1")).level[0]
    labels = {"campaign": "spring", "reason": "unauthorized"}
    assert registry.get_sample_value("shadowprice_degraded_total", labels) == 1


def test_a_tie_at_the_price_is_shared_and_says_so(build, kit):
    customer = Terms(levels=(0, 50, 80, 130))
    terms = kit.campaign(sides={"customer": customer}, budget=Budget(form="total", limit=10**9))
    frame = kit.embeddings().set_index(["side", "account_id"])["embedding"]
    curve = kit.heads()["customer"].response(frame["customer", "c5"][None])[:, 0].astype(float)
    slopes = np.diff(curve) / np.diff(np.array([0, 50, 80, 130]) * curve)
    tie = kit.price(price=float(slopes[0]))
    ids = [f"r{i}" for i in range(400)]
    answers = build(terms=terms, price=tie)[0].answer(Requests(ids, ["c5"] * 400, ["customer"] * 400))
    score = curve - slopes[0] * np.array([0, 50, 80, 130]) * curve
    tied = np.flatnonzero(score >= score.max() - 1e-9)
    assert len(tied) == 2
    assert set(answers.reason) == {"tie"}
    dear = answers.level == tied.max()
    assert set(np.unique(answers.level)) == set(tied.tolist())
    assert 0.3 < dear.mean() < 0.5
    np.testing.assert_allclose(answers.propensity, np.where(dear, 0.4, 0.6))


def test_a_side_the_campaign_does_not_have_is_refused(build, kit):
    terms = kit.campaign(sides={"customer": Terms(levels=(0, 50, 80, 130))})
    with pytest.raises(InvalidInput, match="merchant"):
        build(terms=terms)[0].answer(Requests(["r"], ["m1"], ["merchant"]))


def test_without_a_price_there_is_no_answer(build):
    predictor, _ = build()
    predictor.predictor.source.current = None
    with pytest.raises(Unavailable, match="no price"):
        predictor.answer(customers("c1"))


def test_a_reader_of_one_decision_opens_at_most_25_files(build):
    # Files of the service until the ledger answers; the ledger, with what it calls, is a service of its own.
    root, passed, below = Path(__file__).parents[3], set(), 0
    predictor, _ = build()

    def note(frame, event, _):
        nonlocal below
        path = Path(frame.f_code.co_filename)
        if event in ("call", "return") and path.is_relative_to(root / "serving/ledger"):
            below += 1 if event == "call" else -1
        elif event == "call" and not below and path.is_relative_to(root):
            passed.add(path.relative_to(root).as_posix())

    sys.setprofile(note)
    try:
        predictor.answer(customers("c0"))
    finally:
        sys.setprofile(None)
    files = {name for name in passed if name.startswith(("serving/", "shadowprice/"))}
    assert {"serving/predictor/predictor.py", "shadowprice/policy.py", "shadowprice/decision.py"} <= files
    assert len(files) <= 25, sorted(files)
