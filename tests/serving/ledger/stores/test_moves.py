"""Moves of budget in both stores: each step once, never money that is spent or held, and limits that follow."""

import itertools
from dataclasses import replace
from datetime import timedelta

import pytest
import redis

from benchmarks.simulation.portfolio import simulate_moves
from benchmarks.simulation.reference import Violation
from serving.ledger import opening
from serving.ledger.moves import Allowance, Move
from serving.ledger.opening import hold_back
from serving.ledger.sqlite.moves import TakeStep
from serving.portfolio import carry
from serving.portfolio.__main__ import undo
from shadowprice.campaign import PortfolioTerms
from shadowprice.errors import Conflict, NotFound, Unavailable

TERMS = PortfolioTerms(name="company", floor=100, cap=1_500, largest_move=500)
PRICES = ((0.1, 0.05, 0.15), (0.3, 0.25, 0.35))


@pytest.fixture
def ledger(open_ledger):
    return open_ledger(limit=1_000, portfolio=TERMS, late_reserve=200)


def move_of(ledger, amount, name="m", give=True, **changes):
    ends = (ledger.campaign.name, "other") if give else ("other", ledger.campaign.name)
    return Move(name, *ends, amount, 0, *PRICES, "a reason")._replace(**changes)


def take(ledger, step, move, end=None):
    return ledger.store.move(step, move, Allowance.of(ledger.campaign), end, ledger.store.date()).result(20)


def test_a_giver_gives_what_is_unspent_and_unheld_and_the_hard_stop_follows_at_once(ledger, kit):
    # Of 1,000 there are 4 · 130 held and 200 set aside.
    ledger.authorize(*(kit.item(f"r{number}", level=2) for number in range(4)))
    with pytest.raises(Conflict, match="more than the 280"):
        take(ledger, "give", move_of(ledger, 281))
    assert take(ledger, "give", move_of(ledger, 280)) == "sent"
    (row,) = ledger.authorize(kit.item("one more", level=2))
    assert row.decision.reason == "budget_exhausted"
    assert ledger.store.totals().moved == -280
    assert ledger.store.totals().money_left(ledger.campaign, ledger.date) == 720


def test_each_step_counts_once_and_a_return_gives_the_limit_back(ledger):
    move = move_of(ledger, 300)
    assert [take(ledger, "give", move) for _ in range(3)] == ["sent"] * 3
    assert ledger.store.totals().moved == -300
    assert [take(ledger, "finish", move, "returned") for _ in range(2)] == ["returned"] * 2
    assert ledger.store.totals().moved == 0
    assert take(ledger, "give", move) == "returned"
    with pytest.raises(Conflict, match="it is returned"):
        take(ledger, "finish", move, "taken")
    with pytest.raises(Conflict, match="recorded before with another content"):
        take(ledger, "give", move_of(ledger, 301))
    with pytest.raises(Conflict, match="was never given"):
        take(ledger, "finish", move_of(ledger, 1, "unknown"), "taken")
    with pytest.raises(Conflict, match="is not of campaign"):
        take(ledger, "take", move)


def test_a_receiver_refuses_for_good_what_its_cap_does_not_allow(ledger):
    first, second = (move_of(ledger, 400, name, give=False) for name in ("first", "second"))
    assert take(ledger, "take", first) == "taken"
    assert take(ledger, "take", second) == "refused"
    assert take(ledger, "take", first) == "taken"
    assert ledger.store.totals().moved == 400
    # Room under the cap comes back, and the refusal stays: the giver may have its money back by then.
    assert take(ledger, "give", move_of(ledger, 400, "away")) == "sent"
    assert take(ledger, "take", second) == "refused"
    assert ledger.store.totals().moved == 0


def test_a_floor_and_the_least_time_between_two_moves_hold_and_an_undo_need_not_wait(ledger):
    take(ledger, "take", move_of(ledger, 100, "in", give=False))
    with pytest.raises(Conflict, match="or the 1000 above its floor"):
        take(ledger, "give", move_of(ledger, 1_001))
    take(ledger, "give", move_of(ledger, 10))
    with pytest.raises(Conflict, match="less than 1 hours ago"):
        take(ledger, "give", move_of(ledger, 10, "again"))
    assert take(ledger, "give", move_of(ledger, 100, "undo|in", undoes="in")) == "sent"
    ledger.at += timedelta(minutes=61)
    assert take(ledger, "give", move_of(ledger, 10, "again")) == "sent"
    assert [(row.move.id, row.half, row.state) for row in ledger.store.moves()] == [
        ("in", "take", "taken"),
        ("m", "give", "sent"),
        ("undo|in", "give", "sent"),
        ("again", "give", "sent"),
    ]


def test_late_captures_and_corrections_count_with_the_limit_that_moves_left(ledger, kit):
    ledger.authorize(kit.item("first", level=2), kit.item("second", level=2))
    ledger.at += timedelta(hours=80)
    ledger.sweep()
    ledger.campaign = replace(ledger.campaign, portfolio=replace(TERMS, floor=0))
    take(ledger, "give", move_of(ledger, 800))
    assert ledger.settle(kit.event("first", 100, at=ledger.at)) == (1, 0)
    assert ledger.settle(kit.event("second", 50, at=ledger.at)) == (1, 0)
    with pytest.raises(Conflict, match="50"):
        ledger.correct(kit.correction("second", 101, at=ledger.at))
    with pytest.raises(Conflict, match="more than the 0"):
        take(ledger, "give", move_of(ledger, 1, "rest", undoes="another"))


def test_a_ledger_that_starts_again_has_its_moves_and_an_unwilling_campaign_has_none(ledger, open_ledger):
    take(ledger, "give", move_of(ledger, 300))
    ledger.close()
    again = open_ledger(ledger.campaign)
    assert (again.store.totals().given, len(again.store.moves())) == (300, 1)
    unwilling = open_ledger(limit=1_000)
    with pytest.raises(Conflict, match="or the 0 above its floor"):
        take(unwilling, "give", move_of(unwilling, 1))
    assert take(unwilling, "take", move_of(unwilling, 1, give=False)) == "refused"


def test_a_ledger_that_lost_its_half_gets_it_back_whatever_money_is_left(open_ledger, ledger, kit):
    # A ledger that was recovered from its log has spent, and knows nothing of a move that the receiver has counted.
    recovered = open_ledger(portfolio=TERMS)
    recovered.authorize(*(kit.item(f"r{number}", level=2) for number in range(7)))
    move = Move("m", recovered.campaign.name, ledger.campaign.name, 500, 0, *PRICES, "a reason")
    assert take(ledger, "take", move) == "taken"
    ledgers = {own.campaign.name: Direct(own) for own in (recovered, ledger)}
    rows = {name: own.moves() for name, own in ledgers.items()}
    assert carry.lost(rows) == [(recovered.campaign.name, move)]
    for _ in range(2):
        carry.restore(ledgers)
    assert (recovered.store.totals().moved, ledger.store.totals().moved) == (-500, 500)
    assert carry.lost({name: own.moves() for name, own in ledgers.items()}) == []
    (row,) = recovered.authorize(kit.item("more", level=2))
    assert row.decision.reason == "budget_exhausted"


class Direct:
    """Ledger as a coordinator reaches it, without a network."""

    def __init__(self, ledger):
        self.ledger = ledger

    def move(self, campaign, step, move, state=None):
        assert campaign == self.ledger.campaign.name
        return take(self.ledger, step, move, state)

    def moves(self):
        return self.ledger.store.moves()

    def totals(self):
        totals, limit = self.ledger.store.totals(), self.ledger.campaign.budget.limit
        sums = {"net_spent": totals.net_spent, "outstanding": sum(totals.outstanding.values()), "moved": totals.moved}
        return {"budget": {"limit": limit}, "overridden_by_side": totals.overridden, **sums}


@pytest.fixture(params=["sqlite", "redis"])
def url(request):
    """Address of an empty database of Redis; empty for sqlite."""
    if request.param == "sqlite":
        return ""
    address = request.getfixturevalue("durable_redis").url.replace("/0", "/5")
    with redis.Redis.from_url(address) as client:
        client.flushdb()
    return address


def test_no_money_is_granted_twice_or_lost_whatever_happens_to_coordinators_and_ledgers(url, tmp_path):
    found = simulate_moves(7, 60, tmp_path, url)
    faults = {"killed before", "killed after", "lost", "twice", "later", "restart", "two coordinators", "taken back"}
    faults |= set() if url else {"restored", "compared", "restore_give", "restore_take"}
    assert set(found.counts) >= faults | {"give", "take", "refuse", "finish"}
    ends = {row.split()[2] for row in found.trace}
    assert ends >= {"sent", "taken", "refused", "returned"}


def test_the_simulation_of_moves_replays_a_seed(tmp_path):
    traces = []
    for place, seed in (("a", 1), ("b", 1), ("c", 2)):
        (tmp_path / place).mkdir()
        traces.append(simulate_moves(seed, 8, tmp_path / place).trace)
    assert traces[0] == traces[1] != traces[2]


def raised_first(move, ledgers):
    ledgers[move.target].move(move.target, "take", move)
    ledgers[move.source].move(move.source, "give", move)
    return ledgers[move.source].move(move.source, "finish", move, "taken")


def sent_again_as_another(move, ledgers):
    ledgers[move.source].move(move.source, "give", move)
    for number in range(2):
        ledgers[move.target].move(move.target, "take", move._replace(id=f"{move.id}|{number}"))
    return "taken"


def returned_without_an_answer(move, ledgers):
    try:
        answered = ledgers[move.target].move(move.target, "take", move)
    except Unavailable:
        answered = "refused"
    return ledgers[move.source].move(move.source, "finish", move, "taken" if answered == "taken" else "returned")


def returned_without_a_question(move, ledgers):
    return ledgers[move.source].move(move.source, "finish", move, "returned")


@pytest.mark.parametrize(
    ("name", "planted"),
    [
        ("carry_out", raised_first),
        ("carry_out", sent_again_as_another),
        ("finish", returned_without_an_answer),
        ("take_back", returned_without_a_question),
    ],
)
def test_faults_that_are_planted_in_the_order_of_a_move_are_found(name, planted, url, tmp_path, monkeypatch):
    monkeypatch.setattr(carry, name, planted)
    with pytest.raises(Violation, match="together"):
        simulate_moves(0, 300, tmp_path, url)


def test_a_receiver_that_takes_a_repeat_again_is_found(tmp_path, monkeypatch):
    call, number = TakeStep.__call__, itertools.count()

    def again(job, database):
        repeat = job.step == "take" and database.execute("SELECT 1 FROM move WHERE id = ?", (job.move.id,)).fetchone()
        name = f"{job.move.id}|{next(number)}" if repeat else job.move.id
        return call(replace(job, move=job.move._replace(id=name)), database)

    monkeypatch.setattr(TakeStep, "__call__", again)
    with pytest.raises(Violation, match="together"):
        simulate_moves(0, 300, tmp_path)


@pytest.mark.parametrize(
    ("place", "name", "planted"),
    [(opening, "hold_back", lambda store, campaign: None), (carry, "lost", lambda rows: [])],
    ids=["nothing held back", "nothing compared"],
)
def test_a_restored_ledger_that_grants_what_it_may_have_given_is_found(place, name, planted, tmp_path, monkeypatch):
    monkeypatch.setattr(place, name, planted)
    with pytest.raises(Violation, match="together"):
        simulate_moves(0, 300, tmp_path)


def test_a_restored_ledger_keeps_to_its_floor_until_its_moves_are_compared(open_ledger, kit):
    giver, other = open_ledger(limit=1_000, portfolio=TERMS), open_ledger(limit=1_000, portfolio=TERMS)
    ledgers = {own.campaign.name: Direct(own) for own in (giver, other)}
    before, after = (
        Move(name, giver.campaign.name, other.campaign.name, 200, 0, *PRICES, "a reason")
        for name in ("before", "after")
    )
    carry.carry_out(before, ledgers)
    assert hold_back(giver.store, giver.campaign)
    assert giver.store.totals().moved == 100 - 1_000
    # The restored ledger does not know a move that the receiver has counted.
    assert take(other, "take", after) == "taken"
    rows = giver.authorize(*(kit.item(f"r{number}", level=1) for number in range(3)))
    assert [row.decision.reason for row in rows] == ["tie", "tie", "budget_exhausted"]
    for step, move in (("give", after), ("finish", before), ("take", move_of(giver, 1, "in", give=False))):
        with pytest.raises(Conflict, match="was restored and may have lost moves"):
            take(giver, step, move, "taken" if step == "finish" else None)
    # A second loss meanwhile is compared anew.
    assert hold_back(giver.store, giver.campaign)
    assert {move.id for move in carry.restore(ledgers)} >= {"after"}
    assert (giver.store.totals().moved, other.store.totals().moved) == (-400, 400)
    assert take(giver, "finish", before, "taken") == "taken"
    assert hold_back(open_ledger(limit=1_000).store, open_ledger(limit=1_000).campaign) is False


def test_a_move_that_both_ledgers_lost_is_found_where_its_money_was_spent(open_ledger, kit):
    giver, other = open_ledger(limit=1_000, portfolio=TERMS), open_ledger(limit=1_000, portfolio=TERMS)
    ledgers = {own.campaign.name: Direct(own) for own in (giver, other)}
    for own in (giver, other):
        hold_back(own.store, own.campaign)
    # What the log has is recorded whatever the limit: the receiver had 1,170 by a move that nobody knows any more.
    other.authorize(*(kit.item(f"r{number}", level=2) for number in range(9)), hard_stop=False)
    with pytest.raises(Conflict, match="its limit is 1000: it had money by a move that both ledgers lost"):
        carry.restore(ledgers)
    assert [len(carry.holds(own.moves())) for own in ledgers.values()] == [1, 1]


def test_a_person_takes_back_a_move_whose_receiver_has_not_taken_it(open_ledger):
    giver, other = open_ledger(limit=1_000, portfolio=TERMS), open_ledger(limit=1_000, portfolio=TERMS)
    ledgers = {own.campaign.name: Direct(own) for own in (giver, other)}
    move = Move("m", giver.campaign.name, other.campaign.name, 300, 0, *PRICES, "a reason")
    take(giver, "give", move)
    ledgers[other.campaign.name] = Silent()
    with pytest.raises(Unavailable):
        undo("m", ledgers, giver.at)
    assert [row.move.id for row in carry.under_way(giver.store.moves())] == ["m"]
    del ledgers[other.campaign.name]
    with pytest.raises(NotFound, match="may have taken the money"):
        undo("m", ledgers, giver.at)
    ledgers[other.campaign.name] = Direct(other)
    assert undo("m", ledgers, giver.at) == (move, "returned")
    # What the coordinator sends later is refused.
    assert take(other, "take", move) == "refused"
    assert (giver.store.totals().moved, other.store.totals().moved) == (0, 0)
    late = move._replace(id="late")
    giver.at += timedelta(hours=2)
    take(giver, "give", late)
    take(other, "take", late)
    undone, state = undo("late", ledgers, giver.at)
    assert (undone.undoes, state) == ("late", "taken")
    assert (giver.store.totals().moved, other.store.totals().moved) == (0, 0)


class Silent:
    """Ledger that does not answer."""

    def moves(self):
        raise Unavailable("no answer")
