"""Limits that several campaigns have together, in either store, against a count of every authorization."""

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta

import pytest

from serving.ledger.clock import microseconds
from serving.ledger.redis.peers import SharedLimits
from serving.ledger.sqlite.peers import Peers
from shadowprice.errors import Conflict, InvalidInput, Unavailable
from shadowprice.limits import Cap, GroupBudget, Limits, check_alike

STEPS = 250
ACCOUNTS = ("ada", "ben", "cleo", "dan", "eva")
TTL_HOURS = 3


@pytest.fixture(params=["sqlite", "redis"])
def open_together(request, tmp_path, kit):
    """Opens the ledgers of campaigns that name each other, as one service does."""
    url = request.getfixturevalue("durable_redis").url if request.param == "redis" else ""
    opened = []

    def opening(*names, limits, **changes):
        peers = Peers({name: tmp_path / f"{name}.db" for name in names})
        for name in names:
            campaign = kit.campaign(name=name, limits=limits(names), **changes)
            opened.append(kit.open(campaign, tmp_path / f"{name}.db", url, peers=peers))
        return opened[-len(names) :]

    yield opening
    for each in opened:
        each.close()


def names_of(kit, count):
    return [kit.campaign().name for _ in range(count)]


def given(recorded):
    return [(each.decision.level, each.decision.reason, each.decision.limited_by) for each in recorded]


def test_accounts_are_capped_over_all_campaigns_and_the_answer_names_the_cap(open_together, kit):
    first, second = open_together(
        *names_of(kit, 2),
        limits=lambda names: Limits(caps=(Cap(name="wallet", per="account", amount=150, campaigns=names),)),
    )
    assert given(first.authorize(kit.item("r1", level=1))) == [(1, "tie", "")]
    assert given(second.authorize(kit.item("r1", level=2))) == [(0, "capped", "wallet")]
    assert given(second.authorize(kit.item("r2", level=1), kit.item("r3", level=1))) == [
        (1, "tie", ""),
        (1, "tie", ""),
    ]
    assert given(first.authorize(kit.item("r4"))) == [(0, "capped", "wallet")]
    second.settle(kit.event("r2", 0))
    assert given(first.authorize(kit.item("r5"))) == [(1, "tie", "")]
    assert given(first.authorize(kit.item("r6", account_id="b", level=2))) == [(2, "tie", "")]


def test_an_account_of_one_campaign_is_excluded_from_the_other_until_its_money_is_back(open_together, kit):
    first, second = open_together(
        *names_of(kit, 2),
        limits=lambda names: Limits(caps=(Cap(name="either", per="account", exclusive=True, campaigns=names),)),
    )
    assert given(first.authorize(kit.item("r1"), kit.item("r2"))) == [(1, "tie", ""), (1, "tie", "")]
    assert given(second.authorize(kit.item("r3"))) == [(0, "capped", "either")]
    first.release("r1", "r2")
    assert given(second.authorize(kit.item("r4"))) == [(1, "tie", "")]
    assert given(first.authorize(kit.item("r5"))) == [(0, "capped", "either")]
    # An outcome of nothing still counts: the account had the offer.
    second.settle(kit.event("r4", 0))
    assert given(first.authorize(kit.item("r6"))) == [(0, "capped", "either")]


@dataclass
class Held:
    """An authorization of the reference."""

    account: str
    side: str
    held: int
    until: int
    cost: int | None = None
    late: bool = False


class Reference:
    """Every authorization of every campaign, added up for each question."""

    def __init__(self, limits: Limits, campaigns: int) -> None:
        self.limits, self.now = limits, 0
        self.kept: list[dict[str, Held]] = [{} for _ in range(campaigns)]

    def active(self, place: int, limit, account: str) -> list[tuple[int, int]]:
        """Amount and count of each authorization of one campaign that counts for a limit."""
        found = []
        for each in self.kept[place].values():
            if (isinstance(limit, Cap) and each.account != account) or limit.side not in (None, each.side):
                continue
            if each.cost is None and each.until > self.now:
                found.append((each.held, 1))
            elif each.cost is not None:
                found.append((each.cost, int(each.cost > 0 or not each.late)))
        return found

    def refusing(self, place: int, account: str, side: str, wanted: int) -> set[str]:
        """Limits without room for an amount, or that are exceeded already."""
        found = set()
        for limit in self.limits.every:
            if limit.side not in (None, side):
                continue
            by_campaign = [self.active(each, limit, account) for each in range(len(self.kept))]
            amount = sum(held for rows in by_campaign for held, _ in rows)
            count = sum(one for rows in by_campaign for _, one in rows)
            elsewhere = count - sum(one for _, one in by_campaign[place])
            bound = limit.bound
            if bound.most_amount is not None and amount + wanted > bound.most_amount:
                found.add(limit.name)
            if bound.most_count is not None and count >= bound.most_count:
                found.add(limit.name)
            if bound.exclusive and elsewhere:
                found.add(limit.name)
        return found


def test_no_interleaving_of_campaigns_exceeds_a_shared_limit_or_wastes_its_room(open_together, kit):
    dice = random.Random(7)

    def limits(names):
        return Limits(
            budgets=(GroupBudget(name="all", limit=400, campaigns=names),),
            caps=(
                Cap(name="wallet", per="account", amount=130, campaigns=names),
                Cap(name="times", per="account", count=2, side="customer", campaigns=names),
                Cap(name="either", per="account", side="merchant", exclusive=True, campaigns=names),
            ),
        )

    ledgers = open_together(*names_of(kit, 3), limits=limits, limit=100_000, authorization_ttl_hours=TTL_HOURS)
    reference = Reference(limits(tuple(each.campaign.name for each in ledgers)), len(ledgers))
    refused = set()
    for serial in range(STEPS):
        place = dice.randrange(len(ledgers))
        ledger, kept = ledgers[place], reference.kept[place]
        kind = dice.choices(["ask", "settle", "release", "pass", "correct"], [50, 20, 8, 8, 8])[0]
        open_ones = [name for name, each in kept.items() if each.cost is None and each.until > reference.now]
        if kind == "ask":
            side, account = dice.choice(["customer", "merchant"]), dice.choice(ACCOUNTS)
            level = 1
            wanted = kit.levels[side][level]
            full = reference.refusing(place, account, side, wanted)
            (answer,) = ledger.authorize(kit.item(f"r{serial}", side, level, account))
            decision = answer.decision
            assert (decision.incentive == 0) == bool(full), (serial, full, decision)
            if full:
                assert decision.limited_by in full
                assert decision.reason == ("budget_exhausted" if decision.limited_by == "all" else "capped")
                refused.add(decision.limited_by)
            else:
                kept[f"r{serial}"] = Held(account, side, wanted, reference.now + TTL_HOURS)
        elif kind == "settle" and open_ones:
            name = dice.choice(open_ones)
            cost = dice.choice([0, kept[name].held])
            came = {"redeemed": bool(cost)} if kept[name].side == "customer" else {"response": 0.5}
            ledger.settle(kit.event(name, cost, at=ledger.at, **came))
            kept[name].cost = cost
        elif kind == "release" and open_ones:
            name = dice.choice(open_ones)
            ledger.release(name)
            del kept[name]
        elif kind == "correct":
            settled = [name for name, each in kept.items() if each.cost]
            if settled:
                name = dice.choice(settled)
                came = {"redeemed": True} if kept[name].side == "customer" else {"response": 0.5}
                ledger.correct(kit.correction(name, 0, "refund", event_id=f"c{serial}", at=ledger.at, **came))
                kept[name].cost = 0
        elif kind == "pass":
            reference.now += 1
            for each in ledgers:
                each.at += timedelta(hours=1)
                each.sweep()
    assert refused == {"all", "wallet", "times", "either"}


def test_callers_of_two_campaigns_at_once_get_exactly_what_the_cap_allows(open_together, kit):
    ledgers = open_together(
        *names_of(kit, 2),
        limits=lambda names: Limits(caps=(Cap(name="ten", per="account", count=10, campaigns=names),)),
        limit=10_000,
    )

    def ask(number):
        (answer,) = ledgers[number % 2].authorize(kit.item(f"r{number}"))
        return answer.decision.incentive

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(ask, range(80))) == 10 * kit.levels["customer"][1]


def test_a_late_capture_needs_room_in_the_shared_limit(open_together, kit):
    first, second = open_together(
        *names_of(kit, 2),
        limits=lambda names: Limits(caps=(Cap(name="once", per="account", count=1, campaigns=names),)),
        authorization_ttl_hours=1,
    )
    first.authorize(kit.item("r1"))
    first.at += timedelta(hours=1)
    first.sweep()
    second.authorize(kit.item("r1"))
    with pytest.raises(Conflict, match=r"limit 'once' has no room"):
        first.settle(kit.event("r1", 50))


def read_all(ledger, campaign, begin, limit):
    found, after, calls, first = {}, "", 0, None
    while calls == 0 or after:
        page = ledger.store.owners(campaign, begin, after, limit)
        found, after, first, calls = found | page.usage, page.next, page.first, calls + 1
    return found, first, calls


def test_the_use_of_a_limit_is_read_by_owner_for_every_campaign_that_shares_it(open_together, kit):
    first, second = open_together(
        *names_of(kit, 2),
        limits=lambda names: Limits(
            budgets=(GroupBudget(name="all", limit=90_000, campaigns=names),),
            caps=(
                Cap(name="wallet", per="account", amount=500, campaigns=names),
                # Its names begin alike.
                Cap(name="wallet-2", per="account", count=9, period="day", campaigns=names),
            ),
        ),
        limit=100_000,
    )
    here, there = first.campaign.name, second.campaign.name
    owners = [f"a|{number} é%" for number in range(700)]
    assert read_all(first, there, "wallet||", 100) == ({}, None, 1)
    for start in range(0, len(owners), 100):
        first.authorize(
            *(kit.item(f"r{start + place}", account_id=each) for place, each in enumerate(owners[start : start + 100]))
        )
    second.authorize(kit.item("s1", account_id=owners[3]), kit.item("s2", account_id="z"))
    second.settle(kit.event("s1", 0))
    first.release("r5")
    for ledger in (first, second):
        use, since, calls = read_all(ledger, here, "wallet||", 100)
        assert use == {each: (50, 1) for each in owners if each != owners[5]}
        assert since == microseconds(kit.now)
        assert calls >= 7
        assert read_all(ledger, there, "wallet||", 100)[0] == {owners[3]: (0, 1), "z": (50, 1)}
        assert read_all(ledger, there, "wallet-2|2024-05-01|", 100)[0] == {owners[3]: (0, 1), "z": (50, 1)}
        assert read_all(ledger, there, "wallet-2|2024-05-02|", 100)[0] == {}
        assert read_all(ledger, here, "all||", 100)[0] == {"": (699 * 50, 699)}


def test_a_sqlite_ledger_without_those_of_the_others_is_refused(tmp_path, kit):
    cap = Cap(name="wallet", per="account", amount=1, campaigns=("here", "there"))
    campaign = kit.campaign(name="here", limits=Limits(caps=(cap,)))
    with pytest.raises(Conflict, match=r"'wallet' of campaign 'here' is shared with \['there'\]"):
        Peers({"here": tmp_path / "here.db"}).check(campaign)
    alone = kit.open(campaign, tmp_path / "here.db")
    with pytest.raises(Unavailable, match=r"'there', which shares a limit"):
        alone.authorize(kit.item("r1"))
    alone.close()


@pytest.fixture
def start(durable_redis, kit, tmp_path):
    """Opens the ledger of one campaign as a process of its own on one Redis."""
    opened = []

    def starting(name, caps, kept=()):
        peers = Peers(dict.fromkeys((name, *kept), tmp_path))
        opened.append(
            kit.open(kit.campaign(name=name, limits=Limits(caps=caps)), tmp_path, durable_redis.url, peers=peers)
        )
        return opened[-1]

    yield starting
    for each in opened:
        each.close()


def wallet(names, **changes):
    return (Cap(name="wallet", per="account", amount=130, campaigns=tuple(names), **changes),)


def test_a_ledger_whose_file_describes_a_shared_limit_otherwise_is_refused_while_the_other_runs(start, kit):
    here, there = names = names_of(kit, 2)
    first = start(here, wallet(names))
    with pytest.raises(Conflict, match=rf"limits.wallet: of '{there}' is shared .* running ledger of '{here}'"):
        start(there, wallet(names, period="day"))
    # The refused one leaves no trace.
    first.store.check()
    second = start(there, wallet(names))
    assert given(first.authorize(kit.item("r1", level=2))) == [(2, "tie", "")]
    assert given(second.authorize(kit.item("r1", level=2))) == [(0, "capped", "wallet")]
    # Another file needs that the other ledger ends first.
    second.close()
    first.close()
    start(there, wallet(names, period="day")).store.check()


def test_two_ledgers_that_start_at_once_with_different_files_both_stop(start, kit, monkeypatch):
    here, there = names = names_of(kit, 2)
    with monkeypatch.context() as patch:
        patch.setattr(SharedLimits, "difference", lambda _: None)
        ledgers = [start(here, wallet(names)), start(there, wallet(names, period="day"))]
    for _ in range(2):
        for ledger in ledgers:
            with pytest.raises(Unavailable, match="running ledger of"):
                ledger.store.check()
            with pytest.raises(Unavailable, match="describe it alike"):
                ledger.authorize(kit.item("r1"))
            assert "limits.wallet" in ledger.store.trouble
    ledgers[1].close()
    ledgers[0].store.check()
    assert given(ledgers[0].authorize(kit.item("r2"))) == [(1, "tie", "")]
    assert ledgers[0].store.trouble is None


def test_a_ledger_that_lacks_a_shared_limit_stops_the_one_that_names_it(start, kit):
    here, there = names = names_of(kit, 2)
    start(there, ())
    with pytest.raises(Conflict, match=f"running ledger of '{there}'"):
        start(here, wallet(names))


def test_a_ledger_that_was_killed_or_is_kept_by_this_process_is_not_compared(start, kit, monkeypatch):
    here, there = names = names_of(kit, 2)
    start(here, wallet(names))
    start(there, wallet(names, period="day"), kept=[here]).close()
    monkeypatch.setattr("serving.ledger.redis.peers.RUNNING_SECONDS", -1)
    start(there, wallet(names, period="day"))


def test_campaigns_must_describe_a_shared_limit_alike_and_name_themselves(kit):
    def limits(amount):
        return Limits(caps=(Cap(name="wallet", per="account", amount=amount, campaigns=("here", "there")),))

    check_alike({"here": limits(5), "there": limits(5)})
    with pytest.raises(InvalidInput, match=r"limits.wallet: of 'here' is shared with 'there'"):
        check_alike({"here": limits(5), "there": limits(6)})
    with pytest.raises(InvalidInput, match="must name this campaign too, 'elsewhere'"):
        kit.campaign(name="elsewhere", limits=limits(5))
