"""Reading back from every store: the log in order, traffic by the hour, and all of it when it is opened again."""

from datetime import timedelta

import pytest

from serving.ledger.clock import microseconds

HOUR = timedelta(hours=1)


def told(recorded):
    return [(each.decision.level, each.decision.incentive, each.decision.reason, each.repeat) for each in recorded]


def test_decisions_and_outcomes_are_read_in_the_order_of_recording(ledger, kit):
    names = [f"r{number}" for number in range(7)]
    for name in names:
        ledger.authorize(kit.item(name))
    assert [row.request_id for row in ledger.store.decisions_after(0, 100)] == names
    assert [row.request_id for row in ledger.store.decisions_after(3, 2)] == names[3:5]
    assert ledger.store.decisions_after(7, 10) == []
    ledger.settle(kit.event("r5", 50), kit.event("r1", 0))
    ledger.settle(kit.event("r5", 50), kit.event("r2", 50, at=kit.now + timedelta(seconds=1)))
    rows = ledger.store.outcomes_after(1, 10)
    assert [(row.request_id, row.cost, row.response) for row in rows] == [("r1", 0, 0.0), ("r2", 50, 1.0)]
    assert rows[1].observed_at == microseconds(kit.now) + 1_000_000
    assert rows[1].recorded_at == microseconds(kit.now)


def test_traffic_is_counted_by_hour_and_sampled_newest_first(ledger, kit):
    for name, side, after in (
        ("a", "customer", 0),
        ("b", "merchant", 0.6),
        ("c", "customer", 2.4),
        ("d", "customer", 2.7),
    ):
        ledger.at = kit.now + after * HOUR
        ledger.authorize(kit.item(name, side=side, partner_id=f"p{name}", context='{"x_a":1.0}' if name == "d" else ""))
    traffic = ledger.store.traffic(microseconds(kit.now), 3)
    counts = [((hour.hour - kit.now) // HOUR, hour.side, hour.requests) for hour in traffic.hours]
    assert counts == [(0, "customer", 1), (0, "merchant", 1), (2, "customer", 2)]
    assert [asked.request_id for asked in traffic.sample] == ["d", "c", "b"]
    assert [(asked.partner_id, asked.context) for asked in traffic.sample] == [
        ("pd", '{"x_a":1.0}'),
        ("pc", ""),
        ("pb", ""),
    ]
    later = ledger.store.traffic(microseconds(kit.now + 2.5 * HOUR), 3)
    assert ([hour.requests for hour in later.hours], [asked.request_id for asked in later.sample]) == ([1], ["d"])
    assert ledger.store.traffic(0, 0).sample == []


@pytest.mark.parametrize("minutes", [0, 30, 45])
def test_hours_of_traffic_begin_with_the_window_also_at_half_past(ledger, kit, minutes):
    """India's midnight is 18:30 UTC: no request before the first whole hour is lost, and none is shifted."""
    start = kit.now + minutes / 60 * HOUR
    for number in range(40):
        ledger.at = start + number * 0.1 * HOUR
        ledger.authorize(kit.item(f"r{number}"))
    traffic = ledger.store.traffic(microseconds(start), 0)
    assert [((hour.hour - start) / HOUR, hour.requests) for hour in traffic.hours] == [(h, 10) for h in range(4)]


def test_ledger_are_as_they_were_when_they_are_opened_again(open_ledger, kit):
    ledger = open_ledger()
    ledger.authorize(kit.item("a"), kit.item("b"), kit.item("m", side="merchant"))
    ledger.settle(kit.event("a", 50))
    before = ledger.store.totals()
    ledger.close()
    again = open_ledger(ledger.campaign)
    assert again.store.totals() == before
    assert told(again.authorize(kit.item("b", level=2))) == [(1, 50, "tie", True)]
