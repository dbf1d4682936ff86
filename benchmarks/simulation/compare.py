"""Comparison of a whole store with the reference."""

from collections import Counter, defaultdict

from benchmarks.simulation.reference import Reference, check
from serving.http.limits import MAX_MOVES
from serving.ledger.clock import microseconds
from serving.ledger.store import Store
from serving.ledger.traffic import HOUR, QUARTER
from shadowprice.pacing.decision_log.records import CORRECTION_KINDS


def compare(reference: Reference, store: Store) -> None:
    """Raise :class:`Violation` where anything that can be read differs. O(requests)."""
    totals = store.totals()
    check(sum(totals.outstanding.values()), reference.sums["open"], "open")
    check((totals.given, totals.received), (reference.sums["given"], reference.sums["received"]), "moved")
    kept_moves = {row.move.id: (row.move, row.half, row.state) for row in store.moves()}
    newest = dict(list(reference.moves.items())[-MAX_MOVES:])
    under_way = {name: row for name, row in reference.moves.items() if row[2] == "sent"}
    check(kept_moves, newest | under_way, "moves")
    for name in ("spent", "refunded", "late", "overridden"):
        check(sum(getattr(totals, name).values()), reference.sums[name], name)
    for cause in ("expired", "returned"):
        check(sum(value for (_, of), value in totals.released.items() if of == cause), reference.sums[cause], cause)
    check(
        sum(totals.outcomes.values()),
        sum(request.reported is not None for request in reference.requests.values()),
        "outcomes",
    )
    for kind in CORRECTION_KINDS:
        check(sum(value for (_, of), value in totals.corrections.items() if of == kind), reference.sums[kind], kind)
    tally = Counter((request.side, request.given[0], request.given[2]) for request in reference.requests.values())
    check({key: count for key, count in totals.decisions.items() if count}, dict(tally), "decisions")
    again: defaultdict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for request in reference.requests.values():
        amount, count = request.use
        for name in request.sums:
            again[name] = (again[name][0] + amount, again[name][1] + count)
    # The sums that are kept with each step, and the same by adding up every request.
    step_by_step = {name: use for name, use in reference.usage.items() if any(use)}
    check(step_by_step, {name: use for name, use in again.items() if any(use)}, "sums of the reference")
    kept = store.usage(list(again))
    check({name: tuple(kept.get(name, (0, 0))) for name in again}, dict(again), "sums of limits")
    decisions = store.decisions_after(0, 10**9)
    found = [(row.request_id, (row.level, row.incentive, row.reason, row.limited_by)) for row in decisions]
    check(found, [(name, request.given) for name, request in reference.requests.items()], "decisions in order")
    since = min((row.decided_at // QUARTER * QUARTER for row in decisions), default=0)
    hours = Counter(((row.decided_at - since) // HOUR, row.side) for row in decisions)
    traffic = store.traffic(since, 3)
    counted = {((microseconds(hour.hour) - since) // HOUR, hour.side): hour.requests for hour in traffic.hours}
    check(counted, dict(hours), "traffic")
    check([each.request_id for each in traffic.sample], list(reference.requests)[:-4:-1], "newest requests")
    reported = {name: request.reported for name, request in reference.requests.items() if request.reported is not None}
    check({row.request_id: (row.response, row.cost) for row in store.outcomes_after(0, 10**9)}, reported, "outcomes")
    rows = store.corrections_after(0, 10**9)
    check([row.event_id for row in rows], reference.corrected, "corrections")
    standing = {name: request.standing for name, request in reference.requests.items() if request.standing is not None}
    check(reported | {row.request_id: (row.response, row.cost) for row in rows}, standing, "outcomes as they stand")
