"""Outcomes that are corrected: reversals, refunds, clawbacks, and what an administrator ledger."""

import sqlite3
from contextlib import closing
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from serving.ledger.api.corrections import needs_administrator
from serving.ledger.api.metrics import LedgerCollector
from serving.ledger.log import LogWriter
from serving.ledger.sqlite.backup import audit
from serving.reconcile import log_totals, reconcile
from serving.recover import recover
from shadowprice.campaign import Terms
from shadowprice.errors import Conflict, InvalidInput, NotFound, ShadowpriceError
from shadowprice.pacing.decision_log.served import exposure_and_outcome, read_log
from shadowprice.pacing.spend import SpendReport

HOUR = timedelta(hours=1)


def sums(ledger):
    totals = ledger.store.totals()
    names = ("spent", "refunded", "responses", "withdrawn", "overridden")
    return tuple(sum(getattr(totals, name).values()) for name in names)


def test_what_was_not_redeemed_is_corrected_to_redeemed_once_and_its_outcome_stays(ledger, kit):
    ledger.authorize(kit.item("a"))
    ledger.settle(kit.event("a", 0))
    later = kit.correction("a", 50)
    assert ledger.correct(later) == (1, 0)
    assert ledger.correct(later, later) == (0, 2)
    assert (ledger.money(), sums(ledger)) == ((0, 50), (50, 0, 1.0, 0.0, 0))
    assert ledger.store.totals().corrections["customer", "reversal"] == 1
    (outcome,) = ledger.store.outcomes_after(0, 10)
    assert (outcome.cost, outcome.response) == (0, 0.0)
    (row,) = ledger.store.corrections_after(0, 10)
    assert (row.request_id, row.kind, row.cost, row.previous_cost, row.response) == ("a", "reversal", 50, 0, 1.0)
    assert (row.previous_response, row.override, row.source, row.event_id) == (0.0, False, "shop", "c")
    assert row.caller == "refunds-desk"


@pytest.mark.parametrize(("kind", "redeemed"), [("refund", False), ("refund", True), ("clawback", True)])
def test_money_that_came_back_is_free_again(open_ledger, kit, kind, redeemed):
    ledger = open_ledger(limit=130)
    ledger.authorize(kit.item("a", level=2))
    ledger.settle(kit.event("a", 130))
    assert ledger.correct(kit.correction("a", 30, kind, redeemed=True)) == (1, 0)
    assert ledger.correct(kit.correction("a", 0, kind, redeemed=redeemed, event_id="c2")) == (1, 0)
    assert sums(ledger) == (130, 130, 1.0, 0.0 if redeemed else 1.0, 0)
    (granted,) = ledger.authorize(kit.item("b", level=2))
    assert granted.decision.incentive == 130
    assert ledger.store.totals().money_left(ledger.campaign, ledger.at) == 130


@pytest.mark.parametrize("kind", ["refund", "clawback"])
def test_only_a_reversal_raises_a_cost_or_a_response(ledger, kit, kind):
    ledger.authorize(kit.item("a"), kit.item("b"))
    ledger.settle(kit.event("a", 40), kit.event("b", 0))
    for wrong in (kit.correction("a", 50, kind), kit.correction("b", 0, kind, redeemed=True, event_id="c2")):
        with pytest.raises(Conflict, match=rf"\[0\].data.kind: .* a {kind} cannot raise either; a reversal can"):
            ledger.correct(wrong)
    assert sums(ledger) == (40, 0, 1.0, 0.0, 0)


def test_a_cost_that_rises_needs_room(open_ledger, kit):
    ledger = open_ledger(limit=180)
    ledger.authorize(kit.item("a", level=2))
    ledger.settle(kit.event("a", 0))
    ledger.authorize(kit.item("b"), kit.item("c"))
    with pytest.raises(Conflict, match=r"\[0\].data.cost: .*no room for 130 minor units: 80 are left"):
        ledger.correct(kit.correction("a", 130))
    assert ledger.correct(kit.correction("a", 80)) == (1, 0)
    assert ledger.money() == (100, 80)
    assert ledger.correct(kit.correction("a", 130, event_id="c2"), hard_stop=False) == (1, 0)
    assert ledger.money() == (100, 130)


def test_a_call_is_corrected_whole_or_not_at_all(ledger, kit):
    ledger.authorize(kit.item("a"), kit.item("b"))
    ledger.settle(kit.event("a", 50))
    with pytest.raises(Conflict, match=r"\[1\].data.request_id: request 'b' has no outcome; report its outcome first"):
        ledger.correct(kit.correction("a", 0), kit.correction("b", 0, event_id="c2"))
    assert ledger.correct(kit.correction("a", 10), kit.correction("a", 20, event_id="c2")) == (2, 0)
    rows = ledger.store.corrections_after(0, 10)
    assert [(row.previous_cost, row.cost) for row in rows] == [(50, 10), (10, 20)]
    assert ledger.store.corrections_after(1, 10) == rows[1:]
    assert ledger.money() == (50, 20)


def test_an_event_id_means_one_content_whether_of_an_outcome_or_a_correction(ledger, kit):
    ledger.authorize(kit.item("a"), kit.item("b"))
    ledger.settle(kit.event("a", 50, event_id="e"))
    ledger.correct(kit.correction("a", 0))
    for change in ({"cost": 10}, {"kind": "refund"}, {"event_id": "e"}):
        with pytest.raises(Conflict, match="received before with another content"):
            ledger.correct(kit.correction("a", **change))
    with pytest.raises(Conflict, match="received before with another content"):
        ledger.settle(kit.event("b", 50, event_id="c"))
    assert ledger.money() == (50, 0)


def test_an_outcome_told_again_is_a_repeat_as_reported_and_as_corrected(ledger, kit):
    ledger.authorize(kit.item("a"))
    ledger.settle(kit.event("a", 50))
    ledger.correct(kit.correction("a", 20))
    assert ledger.settle(kit.event("a", 50), kit.event("a", 50, event_id="e2"), kit.event("a", 20, event_id="e3")) == (
        0,
        3,
    )
    with pytest.raises(Conflict, match=r"settled with response 1.0 and cost 20"):
        ledger.settle(kit.event("a", 30, event_id="e4"))
    assert ledger.money() == (0, 20)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [({"cost": 51}, "cost"), ({"cost": 10, "redeemed": False}, "cost"), ({"response": 1.0}, "redeemed")],
)
def test_a_correction_is_held_to_the_rules_of_outcomes(ledger, kit, wrong, field):
    ledger.authorize(kit.item("a"))
    ledger.settle(kit.event("a", 50))
    with pytest.raises(ShadowpriceError) as refusal:
        ledger.correct(kit.correction("a", override=True, **wrong))
    assert (refusal.value.field, refusal.value.status) == (f"[0].data.{field}", 422)
    with pytest.raises(NotFound, match="'nobody'"):
        ledger.correct(kit.correction("nobody", 0, override=True))


def test_a_correction_dated_before_its_decision_is_refused_but_for_an_administrator(ledger, kit):
    ledger.authorize(kit.item("a"))
    ledger.settle(kit.event("a", 50))
    early = ledger.at - timedelta(days=240)
    with pytest.raises(ShadowpriceError, match=r"is before the decision of request 'a' at .* override") as refusal:
        ledger.correct(kit.correction("a", 0, at=early))
    assert (refusal.value.field, refusal.value.status) == ("[0].data.observed_at", 422)
    assert ledger.money() == (0, 50)
    assert ledger.correct(kit.correction("a", 0, at=early, override=True, event_id="c1")) == (1, 0)
    assert [row.misdated for row in ledger.store.corrections_after(0, 2)] == [True]
    # The clock of a shop may be some minutes off.
    assert ledger.correct(kit.correction("a", 20, event_id="c2", at=ledger.at - timedelta(minutes=4))) == (1, 0)


def test_an_administrator_books_what_was_given_back_or_has_no_room_and_it_shows(open_ledger, kit):
    ledger = open_ledger(limit=130)
    ledger.authorize(kit.item("a", level=2))
    ledger.release("a")
    ledger.authorize(kit.item("b", level=2))
    ledger.settle(kit.event("b", 130))
    with pytest.raises(Conflict, match="an administrator may book it"):
        ledger.settle(kit.event("a", 130))
    assert ledger.correct(kit.correction("a", 130, override=True)) == (1, 0)
    assert ledger.correct(kit.correction("a", 130, override=True)) == (0, 1)
    assert sums(ledger) == (260, 0, 2.0, 0.0, 130)
    assert ledger.store.totals().money_left(ledger.campaign, ledger.at) == -130
    collector = LedgerCollector(ledger.campaign, ledger.store, skew=lambda: 0.0)
    found = {
        (sample.name, sample.labels.get("reason", "")): sample.value
        for family in collector.collect()
        for sample in family.samples
        if sample.labels.get("side", "customer") == "customer"
    }
    assert found["shadowprice_overspend_minor_units", ""] == 130
    assert found["shadowprice_overridden_minor_units_total", ""] == 130
    assert found["shadowprice_corrections_total", "reversal"] == 1
    # Whoever reports it again, as it happened, is heard; a release is not.
    assert ledger.settle(kit.event("a", 130)) == (0, 1)
    with pytest.raises(Conflict, match="'a' is settled"):
        ledger.release("a")


def test_a_call_with_an_override_among_its_corrections_is_for_administrators(kit):
    plain, override = kit.correction("a", 0), kit.correction("b", 0, override=True)
    assert needs_administrator([plain, override])
    assert not needs_administrator([plain])


def test_an_override_of_an_open_authorization_closes_it(ledger, kit):
    ledger.authorize(kit.item("a", level=2))
    assert ledger.correct(kit.correction("a", 100, override=True)) == (1, 0)
    assert (ledger.money(), sums(ledger)) == ((0, 100), (100, 0, 1.0, 0.0, 100))


def some(ledger, kit):
    ledger.authorize(*(kit.item(name, level=2) for name in "abcde"), kit.item("m", side="merchant"))
    ledger.settle(kit.event("a", 130, amount=4000), kit.event("b", 0), kit.event("c", 100, amount=3000))
    ledger.settle(kit.event("m", 60, response=2.0, amount=800))
    ledger.release("d")
    ledger.at += timedelta(seconds=1)
    ledger.correct(kit.correction("a", 0, "refund", event_id="c1", redeemed=False, at=ledger.at))
    ledger.correct(
        kit.correction("b", 130, event_id="c2", amount=2500), kit.correction("c", 30, "clawback", event_id="c3")
    )
    ledger.correct(kit.correction("m", 20, event_id="c4", response=0.75))
    ledger.at += timedelta(seconds=1)
    ledger.correct(kit.correction("d", 130, event_id="c5", override=True), kit.correction("a", 130, event_id="c6"))


def test_log_metrics_and_ledger_tell_one_story_and_a_falsified_one_differs(open_ledger, kit, tmp_path):
    ledger = open_ledger()
    some(ledger, kit)
    writer = LogWriter(ledger.store, tmp_path / "log", rows=2)
    assert writer.write() == 6 + 5 + 6
    assert writer.write() == 0
    log = read_log(writer.folder)
    standing = {row.request_id: (row.response, row.cost) for row in log.corrected.itertuples()}
    expected = {"a": (1, 130), "b": (1, 130), "c": (1, 30), "d": (1, 130), "m": (0.75, 20)}
    assert standing == expected
    assert log.outcomes["cost"].tolist() == [130, 0, 100, 60, 0]
    outcome = exposure_and_outcome(log, ledger.campaign)[1].set_index("request_id")
    # A correction without an amount leaves it as it was; a request without a response has none.
    assert outcome["amount"].dropna().to_dict() == {"a": 4000, "b": 2500, "c": 3000, "m": 800}
    assert outcome["cost_paid"].to_dict() == {name: cost for name, (_, cost) in expected.items()}
    assert outcome.loc["b", "redeemed"] == 1
    assert ledger.money() == (130, sum(cost for _, cost in expected.values()))

    totals = ledger.store.totals()
    told = {
        "requests": totals.requests,
        "authorized_by_side": totals.authorized,
        "outcomes": totals.outcomes,
        "spent": sum(totals.spent.values()),
        "spent_by_side": totals.spent,
        "refunded_by_side": totals.refunded,
        "responses": totals.responses,
        "withdrawn_by_side": totals.withdrawn,
        "corrections_by_side": totals.corrected,
    }
    withdrawn = {side: float(totals.withdrawn[side]) for side in ("customer", "merchant")}
    report = SpendReport(
        spent=totals.net_spent,
        refunded=sum(totals.refunded.values()),
        responses={side: totals.responses[side] - withdrawn[side] for side in withdrawn},
        withdrawn=withdrawn,
        requests=totals.requests,
        observed_at=ledger.at,
    )
    lines = reconcile(told, log_totals([log]), report, told)
    assert all(line.agrees for line in lines), "\n".join(map(str, lines))
    log.corrections.loc[0, "cost"] = 1
    wrong = [line.total for line in reconcile(told, log_totals([log]), report, told) if not line.agrees]
    assert wrong == ["refunded_by_side customer"]


def test_a_log_of_before_there_were_corrections_has_none(ledger, kit, tmp_path):
    ledger.authorize(kit.item("a"))
    ledger.settle(kit.event("a", 50))
    LogWriter(ledger.store, tmp_path / "log").write()
    log = read_log(tmp_path / "log")
    assert len(log.corrections) == 0
    assert log.corrected.equals(log.outcomes)


def test_the_log_alone_makes_the_corrected_ledger_again(open_ledger, kit, tmp_path):
    ledger = open_ledger()
    some(ledger, kit)
    LogWriter(ledger.store, tmp_path / "log").write()
    other = open_ledger()
    log = read_log(tmp_path / "log")
    assert recover(other.store, other.campaign, log) == (6, 5, 6)
    assert recover(other.store, other.campaign, log) == (0, 0, 0)
    assert other.store.corrections_after(0, 10) == ledger.store.corrections_after(0, 10)
    assert other.store.outcomes_after(0, 10) == ledger.store.outcomes_after(0, 10)
    for name in ("spent", "refunded", "responses", "withdrawn", "overridden", "corrections", "late", "outcomes"):
        assert getattr(other.store.totals(), name) == getattr(ledger.store.totals(), name), name
    # The events themselves are known: an early one, told again, does not undo a later one.
    other.at = ledger.at
    again = kit.correction("a", 0, "refund", event_id="c1", redeemed=False, at=ledger.at - timedelta(seconds=1))
    assert other.correct(again) == (0, 1)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("UPDATE settlement SET refunded = refunded + 1", "settlement is not the sum"),
        ("UPDATE settlement SET clawback = 0", "settlement is not the sum"),
        ("UPDATE correction SET previous_cost = 100 WHERE event_id = 'c6'", "does not follow the one before"),
    ],
)
def test_a_backup_holds_the_sums_to_the_corrections(kit, tmp_path, damage, words):
    campaign, path = kit.campaign(), tmp_path / "ledger.db"
    ledger = kit.open(campaign, path)
    some(ledger, kit)
    ledger.close()
    audit(path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(damage)
    with pytest.raises(InvalidInput, match=words):
        audit(path)


steps = st.lists(
    st.tuples(
        st.sampled_from(["authorize", "settle", "release", "correct", "override", "wait"]),
        st.integers(0, 7),
        st.sampled_from([0, 20, 50, 130]),
        st.sampled_from(["reversal", "refund", "clawback"]),
    ),
    max_size=40,
)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(steps=steps, limit=st.integers(100, 500), share=st.sampled_from([0.0, 0.3, 1.0]))
def test_only_what_an_administrator_books_exceeds_the_limit(open_ledger, kit, steps, limit, share):
    """The reference keeps one line per request: what is reserved, what is paid, and whether it was given back."""
    reserve = int(limit * share)
    sides = {"customer": Terms(levels=kit.levels["customer"])}
    ledger = open_ledger(limit=limit, late_reserve=reserve, authorization_ttl_hours=2.0, sides=sides)
    granted, reserved, until, returned, paid = {}, {}, {}, set(), {}
    late = booked = 0

    def committed():
        return sum(reserved.values()) + sum(paid.values())

    def expire():
        for name in [name for name in reserved if until[name] <= ledger.at]:
            del reserved[name]

    for number, (what, place, cost, kind) in enumerate(steps):
        name = f"r{place}"
        if what == "wait":
            ledger.at += HOUR
        elif what == "authorize":
            if name in granted:
                continue
            expire()
            left = limit - committed() - max(0, reserve - late)
            (recorded,) = ledger.authorize(kit.item(name, level=2))
            granted[name] = 130 if left >= 130 else 0
            assert recorded.decision.incentive == granted[name]
            if granted[name]:
                reserved[name], until[name] = 130, ledger.at + 2 * HOUR
        elif name not in granted or cost > granted[name]:
            continue
        elif what == "release":
            if name not in paid:
                released = name in reserved
                assert ledger.release(name) == (int(released), int(not released))
                if released:
                    del reserved[name]
                    returned.add(name)
        elif what == "settle":
            if name in paid:
                continue
            if name in reserved and until[name] <= ledger.at:
                del reserved[name]
            closed = name not in reserved and granted[name] > 0
            outcome = kit.event(name, cost, at=ledger.at)
            if cost and closed and (name in returned or committed() + cost > limit):
                with pytest.raises(Conflict):
                    ledger.settle(outcome)
                continue
            assert ledger.settle(outcome) == (1, 0)
            reserved.pop(name, None)
            paid[name] = cost
            late += cost if closed else 0
        else:
            override = what == "override"
            wanted = kit.correction(name, cost, kind, event_id=f"c{number}", override=override, at=ledger.at)
            before = paid.get(name, 0)
            dearer = cost - before
            raises = dearer > 0 and kind != "reversal"
            if (name not in paid and not override) or raises or (not override and dearer > max(limit - committed(), 0)):
                with pytest.raises(Conflict):
                    ledger.correct(wanted)
                continue
            assert ledger.correct(wanted) == (1, 0)
            reserved.pop(name, None)
            paid[name] = cost
            booked += max(dearer, 0) if override else 0
        totals = ledger.store.totals()
        assert totals.net_spent == sum(paid.values())
        assert sum(totals.overridden.values()) == booked
        assert sum(totals.late.values()) == late
        assert sum(ledger.money()) <= limit + booked
    ledger.close()
