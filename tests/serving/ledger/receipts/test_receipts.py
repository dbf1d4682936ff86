"""Receipts of decisions in either store: they hold for a stranger, no change of one passes, and erasures keep them."""

import json
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from struct import error
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from operations.common.workspace import list_prices
from operations.erasure.files import Parquet
from operations.erasure.record import Erasures
from operations.publish import add
from serving.ledger.log import LogWriter
from serving.ledger.redis.accounts import RedisAccounts
from serving.ledger.redis.store import RedisStore
from serving.ledger.sqlite.accounts import SqliteAccounts
from shadowprice.arms import Arm, Experiment, Holdout, Raise, treatment
from shadowprice.campaign import Segment, Terms
from shadowprice.curves import Curves
from shadowprice.errors import Conflict, NotFound
from shadowprice.limits import Cap, GroupBudget, Limits, Rule
from shadowprice.limits.attributes import Attributes
from shadowprice.limits.coverage import SideRequests
from shadowprice.limits.usage import Usage
from shadowprice.lists.answered import items_of
from shadowprice.lists.money import InHand
from shadowprice.lists.parts import SideList
from shadowprice.lists.solve import AccountList
from shadowprice.pacing.decision_log import tree, verify_receipt
from shadowprice.pacing.decision_log.basis import SALT, Bases
from shadowprice.pacing.decision_log.compaction import compact
from shadowprice.pacing.decision_log.receipt import Receipts
from shadowprice.pacing.decision_log.tree import LogTree, leaf, path, root, rows_after
from shadowprice.pacing.price_store import PriceStore
from shadowprice.pacing.spend import CapUse
from shadowprice.policy import Policy, treated_in
from shadowprice.price import PriceRecord

COUNT = 40
CHARGES = {}
"""Request → charges of each level, as the rule read them."""
REFUSED = (error, ValueError, LookupError, TypeError, AttributeError, ArithmeticError)
"""Errors of the program, which a stranger runs and which ends with any of them."""
RULES = (
    Rule(name="kids", expression='context.c_age == "kid" && offer.incentive > 50', side="customer"),
    Rule(name="never", expression='context.c_age == "old" && offer.level == 0', side="customer"),
)
ARMS = (
    Arm(name="none", kind="holdout", share=1500),
    Arm(name="drawn", kind="explore", share=1500),
    Arm(name="all", kind="policy", share=4000),
)
LIMITS = Limits(
    budgets=(GroupBudget(name="shops", limit=10_000, partners=("p1",)),),
    caps=(Cap(name="often", per="account", count=2),),
)


def price_of(campaign, version=1, **changes):
    values = {
        "campaign": campaign.name,
        "version": version,
        "slot": version,
        "prices": {name: 0.01 / (1 + place) for place, name in enumerate(campaign.priced)},
        "tie_share": 0.5,
        "status": "optimal",
        **dict.fromkeys(("primal", "dual"), 1.0),
        **dict.fromkeys(("gap", "violation"), 0.0),
        **dict.fromkeys(("spent", "remaining", "sample_rows"), 0),
        "model_version": "m",
        "solved_at": campaign.starts_at,
        "expires_at": campaign.starts_at + timedelta(hours=2),
    }
    return PriceRecord(**(values | changes)).sealed()


def decide(campaign, price, side, names, dice):
    """Items of requests of a side, as the predictor proposes them."""
    n, terms = len(names), campaign.terms(side)
    # Powers of two make levels that tie at the price.
    choices = np.array([[0.125, 0.25, 0.2578125], [0.03125, 0.125, 0.5], [0.125, 0.2, 0.75]], dtype=np.float32)
    response = np.ascontiguousarray(choices[dice.integers(0, 3, n)].T[: len(terms.levels)])
    accounts = [f"{side[0]}{number}" for number in dice.integers(0, 20, n)]
    partners = [("", "p1", "p2")[number] for number in dice.integers(0, 3, n)]
    context = {"c_age": [("kid", "old", "none")[number] for number in dice.integers(0, 3, n)]}
    asked = SideRequests(side, accounts, partners, context)
    policy = Policy(campaign, campaign.coverage(), price.of(campaign.priced), price.tie_share)
    by_model = dice.random((len(terms.levels), n)) < 0.9
    by_model[1] = True
    eligible = policy.eligible(asked, by_model)
    rows = eligible.rows.tolist()
    treated = treated_in(campaign, accounts, partners, [campaign.starts_at] * n)[0].take(rows)
    response = np.ascontiguousarray(response[:, rows])
    curves = Curves(np.asarray(terms.levels), response)
    decided = policy.answer(eligible, curves, [names[row] for row in rows], treated)
    own = Bases(campaign, side, price.sha256).of(decided, response)
    shares = decided.decision.policy.propensities().T.tolist()
    free = terms.unit_costs[0] == 0
    for place, row in enumerate(rows):
        level = int(decided.decision.level[place])
        CHARGES[names[row]] = decided.choices.charges[:, :, place].T.tolist()
        unpaid = float(response[0, place]) if free and decided.unpaid[place] else 0.0
        yield {
            "request_id": names[row],
            "account_id": accounts[row],
            "partner_id": partners[row],
            "side": side,
            "level": level,
            "incentive": terms.unit_costs[level],
            "response": float(response[level, place]),
            "propensity": float(decided.decision.propensity[place]),
            "propensities": shares[place],
            "reason": str(decided.reasons[place]),
            "arm": str(treated.arm[place]),
            "groups": decided.groups[place],
            "context": json.dumps({"c_age": context["c_age"][row]}),
            "basis": own[place],
            "response_unpaid": unpaid,
            "unpaid_allowed": bool(decided.unpaid[place] | (not free)),
        }


def served(open_ledger, kit, folder, rows=COUNT, **changes):
    """A ledger with decisions at a price, some of them limited, its log, and a later price with the log's head."""
    test = Experiment(arms=ARMS, salt="spring", raises=(Raise(arm="all", share=500),))
    sides = {side: Terms(levels=levels) for side, levels in kit.levels.items()}
    sides["merchant"] = replace(sides["merchant"], cost_basis="on_grant", weight=0.5)
    values = {
        "holdout": Holdout(key="all", share=1500),
        "limit": 1000,
        "sides": sides,
        "limits": LIMITS,
        "rules": RULES,
        "experiment": test,
        "exploration": 0.2,
    }
    # Merchants draw uniformly: their receipts have no weights.
    names = kit.campaign(**values).offer_ids["customer"]
    values["exploration_weights"] = {"customer": {name: 4.0**place for place, name in enumerate(names)}}
    campaign = kit.campaign(**(values | changes))
    ledger, price, dice = open_ledger(campaign), price_of(campaign), np.random.default_rng(5)
    prices = PriceStore(folder / "prices")
    prices.publish(price)
    for side in campaign.sides:
        names = [f"{side}-{number}" for number in range(rows)]
        for fields in decide(campaign, price, side, names, dice):
            ledger.authorize(kit.item(**fields))
    writer = LogWriter(ledger.store, folder / "log", rows=80)
    writer.write()
    head = LogTree(writer.folder).head()
    prices.publish(price_of(campaign, 2, log_rows=head.rows, log_head=head.root))
    receipts = Receipts(campaign, writer.folder, [prices])
    decisions = ledger.store.decisions_after(0, 10**6)
    return SimpleNamespace(ledger=ledger, receipts=receipts, writer=writer, decisions=decisions, head=head, price=price)


@pytest.fixture
def all_served(open_ledger, kit, tmp_path):
    return served(open_ledger, kit, tmp_path)


def test_the_receipt_of_each_decision_holds_for_a_stranger(all_served, tmp_path):
    kinds, priced = set(), all_served.ledger.campaign.priced
    for row in all_served.decisions:
        receipt = verify_receipt.verify(all_served.receipts.receipt(row.request_id))
        assert receipt["entry"]["level"] == row.level
        assert receipt["owner"]["account_id"] == row.account_id
        charges = [[level["charges"].get(name, 0) for name in priced] for level in receipt["levels"]]
        assert charges == CHARGES[row.request_id]
        kinds |= {row.reason, row.arm, *(level["forbidden_by"] for level in receipt["levels"])}
    assert kinds >= {"optimal", "tie", "explored", "holdout", "budget_exhausted", "capped"}
    assert kinds >= {"", "model", "arm", "rule kids", "rule never", "company_holdout", "none", "drawn", "all"}
    assert all_served.receipts.check_heads() == 1
    # The program alone, without anything of the project, as a stranger has it.
    program, file = tmp_path / "verify.py", tmp_path / "receipt.json"
    program.write_text(text := Path(verify_receipt.__file__).read_text())
    assert len(text.splitlines()) <= 150
    file.write_bytes(all_served.receipts.receipt(all_served.decisions[0].request_id))
    command = [sys.executable, "-I", "-S", program, file]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.startswith(f"valid: request {all_served.decisions[0].request_id}, level"), done.stderr
    assert subprocess.run([*command, 64 * "0"], capture_output=True).returncode == 1


@pytest.mark.parametrize("open_ledger", ["sqlite"], indirect=True)
@pytest.mark.parametrize(("of", "most_units"), [("customer", 1), ("merchant", 3)])
def test_the_row_of_a_list_has_a_receipt_as_a_request_has(open_ledger, kit, tmp_path, of, most_units):
    n, rng, levels, limit = 100, np.random.default_rng(1), kit.levels[of], 3_000 * most_units**2
    campaign = kit.campaign(
        sides={of: Terms(levels=levels, most_units=most_units, weight=1.5)},
        limit=limit,
        holdout=Holdout(key="all", share=1500),
        experiment=Experiment(arms=ARMS, salt="spring"),
        exploration=0.2,
        limits=Limits(
            budgets=(GroupBudget(name="side", limit=limit, side=of),),
            caps=(Cap(name="most", per="account", amount=most_units * levels[-1]),),
        ),
        rules=(Rule(name="dear", expression="offer.incentive > 50 && account.x_age < 40", side=of),),
    )
    names = [f"c{number}" for number in range(n)]
    curves = Curves(np.asarray(levels), np.cumsum(rng.random((len(levels), n)) / 4, axis=0).astype(np.float32))
    ages = {of: Attributes.of(names, {"x_age": rng.integers(10, 90, n).tolist()})}
    side = {of: SideList(pa.array(names), curves, np.ones(n, dtype=bool))}
    used = {"most": CapUse.of({name: Usage(50, 1) for name in names[::5]}, {})}
    money = InHand(float(limit), {"side": float(limit)}, used, held=True)
    listed = AccountList(campaign, campaign.coverage(ages), "monday", side, money, kit.now)
    record = listed.solve(1_700_000_000, "m")
    planned = pa.concat_tables(listed.rows(record))
    items = items_of(campaign, planned)
    ledger = open_ledger(campaign)
    rows = [dict(zip(items, row, strict=True)) for row in zip(*items.values(), strict=True)]
    ledger.authorize(*(kit.item(**row) for row in rows), price_version=record.version)
    (writer := LogWriter(ledger.store, tmp_path / "log")).write()
    head, prices = LogTree(writer.folder).head(), PriceStore(tmp_path / "prices")
    prices.publish(price_of(campaign, 1, log_rows=head.rows, log_head=head.root))
    receipts = Receipts(campaign, writer.folder, [prices], None, [record])
    kinds = set()
    alike = {
        (row.reason, row.arm, row.level, row.basis.partition("|")[2]): row for row in ledger.store.decisions_after(0, n)
    }
    for row in alike.values():
        receipt = verify_receipt.verify(receipts.receipt(row.request_id))
        assert (receipt["entry"]["level"], receipt["price"]["sha256"]) == (row.level, record.sha256)
        kinds |= {row.reason, row.arm, *(level["forbidden_by"] for level in receipt["levels"])}
    assert kinds >= {"optimal", "explored", "holdout", "rule dear", "company_holdout", "none", "drawn", "all", "list"}
    (tmp_path / "lists" / "monday").mkdir(parents=True)
    (tmp_path / "lists" / "monday" / "list.json").write_text(json.dumps({"record": json.loads(record.to_json())}))
    assert list_prices(tmp_path) == [record]


@pytest.fixture
def erase(all_served, request, tmp_path):
    """Erases an account in the ledger, which is closed, and returns the number of rows."""

    def erasing(account):
        ledger, erasures = all_served.ledger, Erasures(tmp_path)
        url = request.getfixturevalue("durable_redis").url if isinstance(ledger.store, RedisStore) else ""
        ledger.close()
        erasures.add(account, "erased-1")
        name = ledger.campaign.name
        return (RedisAccounts(url, None, name) if url else SqliteAccounts(tmp_path / f"{name}.db")).erase(erasures)

    return erasing


def wanted(found):
    """One receipt of each reason."""
    by_reason = {row.reason: row.request_id for row in found.decisions}
    return [found.receipts.receipt(name) for name in by_reason.values()]


@pytest.mark.parametrize("open_ledger", ["sqlite"], indirect=True)
def test_the_receipt_of_a_delivery_holds_also_where_its_segment_was_full(open_ledger, kit, tmp_path):
    demands = {"calm": 2, "bold": 3, "none": 30}
    segments = tuple(Segment(name=name, demand=demand) for name, demand in demands.items())
    campaign = kit.campaign(sides={"customer": Terms(levels=(0, 1, 2), segments=segments)})
    ledger, price, names = open_ledger(campaign), price_of(campaign), [f"r{number}" for number in range(20)]
    response = np.random.default_rng(2).random((3, len(names))).astype(np.float32) + np.float32([[0.5], [0.3], [0]])
    policy = Policy(campaign, campaign.coverage(), price.of(campaign.priced), 0.5)
    eligible = policy.eligible(SideRequests("customer", names))
    treated = treatment(None, names, 0.0)
    decided = policy.answer(eligible, Curves(np.arange(3), response), names, treated)
    level = decided.decision.level
    others = decided.choices.further(price.of(campaign.priced), level)
    own = Bases(campaign, "customer", price.sha256).of(decided, response)
    shares = decided.decision.policy.propensities().T.tolist()
    for place, name in enumerate(names):
        fields = {"account_id": name, "level": int(level[place]), "incentive": 0, "basis": own[place]}
        fields |= {"reason": "optimal", "propensity": 1.0, "propensities": shares[place]}
        fields |= {"further_levels": others[place], "further_responses": [0.0] * len(others[place])}
        ledger.authorize(kit.item(name, **fields))
    writer = LogWriter(ledger.store, tmp_path / "log")
    writer.write()
    head, store = LogTree(writer.folder).head(), PriceStore(tmp_path / "prices")
    store.publish(price)
    store.publish(price_of(campaign, 2, log_rows=head.rows, log_head=head.root))
    found = [verify_receipt.verify(Receipts(campaign, writer.folder, [store]).receipt(name))["entry"] for name in names]
    assert {each.get("limited_by", "") for each in found} >= {"", "calm", "bold"}
    assert {each["level"] for each in found} == {0, 1, 2}


@pytest.mark.parametrize("open_ledger", ["sqlite"], indirect=True)
def test_no_flipped_bit_of_a_receipt_passes(all_served):
    texts = wanted(all_served)
    assert len(texts) >= 6

    @settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(texts), st.integers(min_value=0))
    def flip(text, number):
        place, bit = divmod(number % (8 * len(text)), 8)
        changed = bytearray(text)
        changed[place] ^= 1 << bit
        with pytest.raises(REFUSED):
            verify_receipt.verify(bytes(changed))

    flip()


def others(value):
    """Values that another field may have."""
    if isinstance(value, bool) or value is None:
        return [not value, "x"]
    if isinstance(value, str):
        return ["", value + "x", value[:-1] + ("a" if value[-1:] != "a" else "b")]
    return [value + 1, -value - 1, float(value) if isinstance(value, int) else value * (1 + 1e-15)]


def changes(value):
    """Yield after each change of one part of a document, and undo it."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        part = value[key]
        if isinstance(part, dict | list):
            yield from changes(part)
        for other in [] if isinstance(part, dict | list) else others(part):
            value[key] = other
            yield key
        value[key] = part
    if isinstance(value, dict):
        value["more"] = 1
        yield "more"
        del value["more"]
        for key in keys:
            part = value.pop(key)
            yield key
            value[key] = part


@pytest.mark.parametrize("open_ledger", ["sqlite"], indirect=True)
def test_no_changed_missing_or_added_field_of_a_receipt_passes(all_served):
    for text in wanted(all_served):
        receipt, count = json.loads(text), 0
        for key in changes(receipt):
            if (changed := verify_receipt.canonical(receipt, 1) + b"\n") == text:
                continue
            count += 1
            with pytest.raises(REFUSED):
                print(key, verify_receipt.verify(changed))
        assert count > 300


@pytest.mark.parametrize("open_ledger", ["sqlite"], indirect=True)
def test_a_receipt_whose_hashes_were_all_made_anew_still_needs_the_level_of_the_rule(all_served):
    """A forger who holds log and price store changes a level and seals everything again."""
    (name,) = [row.request_id for row in all_served.decisions if row.reason == "optimal"][:1]
    receipt = json.loads(all_served.receipts.receipt(name))
    entry, head = receipt["entry"], receipt["head"]
    entry["level"] = (entry["level"] + 1) % len(receipt["levels"])
    entry["incentive"] = receipt["terms"]["unit_costs"][entry["level"]]
    receipt["proof"] = [1]
    hashed = verify_receipt.sha256(b"\0" + verify_receipt.canonical(entry)).hexdigest()
    head |= {"log_rows": 1, "log_head": hashed}
    body = {key: value for key, value in head.items() if key != "sha256"}
    head["sha256"] = verify_receipt.sha256(verify_receipt.canonical(body)).hexdigest()
    with pytest.raises(ValueError, match="the rule gives level"):
        verify_receipt.verify(verify_receipt.canonical(receipt, 1) + b"\n")


def test_an_erasure_keeps_every_head_and_receipt_and_leaves_no_way_to_the_account(all_served, erase, tmp_path):
    receipts = all_served.receipts
    account = next(row.account_id for row in all_served.decisions if row.partner_id)
    own = [row.request_id for row in all_served.decisions if account in (row.account_id, row.partner_id)]
    salts = {row.request_id: row.basis[:SALT] for row in all_served.decisions}
    assert erase(account) == len(own)
    # The log is erased twice, as after an interruption.
    for file in [*receipts.log.glob("decisions-*.parquet")] * 2:
        Parquet(file).erase(Erasures(tmp_path))
    assert LogTree(receipts.log).head() == all_served.head
    assert receipts.check_heads() == 1
    for name in own:
        receipt = verify_receipt.verify(receipts.receipt(name))
        assert receipt["owner"] == {"erased": receipt["entry"]["owner"]}
        assert not {"account_id", "partner_id"} & set(receipt["entry"])
    kept = {row.request_id: row.basis[:SALT] for row in rows_after(receipts.log, 0)}
    assert {name for name in kept if kept[name] != salts[name]} == set(own)


def test_a_log_written_anew_from_an_erased_ledger_has_the_same_head(open_ledger, all_served, erase, tmp_path):
    assert erase(all_served.decisions[3].account_id)
    again = open_ledger(all_served.ledger.campaign)
    LogWriter(again.store, tmp_path / "anew", rows=7).write()
    while compact(tmp_path / "anew", "decisions", tiers=(50,)):
        pass
    assert LogTree(tmp_path / "anew").head() == all_served.head


@pytest.mark.parametrize("open_ledger", ["sqlite"], indirect=True)
def test_a_row_that_was_changed_left_out_or_added_is_seen(all_served, tmp_path):
    leaves = list(map(leaf, all_served.decisions))
    assert LogTree(all_served.receipts.log).head().root == root(leaves).hex()
    row = all_served.decisions[7]
    for changed in (
        [*all_served.decisions[:7], row._replace(incentive=row.incentive + 1), *all_served.decisions[8:]],
        [*all_served.decisions[:7], *all_served.decisions[8:]],
        [*all_served.decisions[:7], row._replace(request_id="added"), *all_served.decisions[7:]],
    ):
        assert root(list(map(leaf, changed))).hex() != all_served.head.root
    # The log loses its last segment: the ledger would refuse; the heads notice too.
    max(all_served.receipts.log.glob("decisions-*")).unlink()
    with pytest.raises(Conflict, match="are not those that price version 2 of"):
        all_served.receipts.check_heads()


@pytest.mark.parametrize("open_ledger", ["sqlite"], indirect=True)
def test_refusals_say_why_there_is_no_receipt(open_ledger, kit, all_served, tmp_path):
    ledger, receipts = all_served.ledger, all_served.receipts
    with pytest.raises(NotFound, match="the log has no request 'unknown'"):
        receipts.receipt("unknown")
    ledger.authorize(kit.item("old"))
    fields = next(decide(ledger.campaign, all_served.price, "merchant", ["new"], np.random.default_rng(1)))
    ledger.authorize(kit.item(**fields))
    all_served.writer.write()
    with pytest.raises(NotFound, match="'old' has no receipt: it was decided before receipts were kept"):
        receipts.receipt("old")
    with pytest.raises(Conflict, match="'new' is in no published head yet"):
        receipts.receipt("new")
    # An arm that was raised since is found; another change needs the file of then.
    name, campaign = all_served.decisions[0].request_id, ledger.campaign
    raised = replace(campaign, experiment=campaign.experiment.raised("all", 5000))
    assert replace(receipts, campaign=raised).receipt(name) == receipts.receipt(name)
    with pytest.raises(Conflict, match="have changed since; name the campaign file"):
        replace(receipts, campaign=replace(campaign, rules=())).receipt(name)
    explored = next(row for row in all_served.decisions if (row.side, row.reason) == ("customer", "explored"))
    for weights in ({}, {"customer": dict.fromkeys(campaign.offer_ids["customer"], 1.0)}):
        with pytest.raises(Conflict, match="have changed since; name the campaign file"):
            replace(receipts, campaign=replace(campaign, exploration_weights=weights)).receipt(explored.request_id)


@pytest.mark.parametrize("open_ledger", ["sqlite"], indirect=True)
def test_a_price_gets_the_head_of_the_log_and_is_published_without_one_of_a_damaged_log(all_served, tmp_path, capsys):
    campaign, (store,) = all_served.ledger.campaign, all_served.receipts.prices
    (tmp_path / "campaign.json").write_text(json.dumps(campaign.to_dict()))
    now = datetime.now(UTC)
    times = {"solved_at": now, "expires_at": now + timedelta(hours=1)}
    price = price_of(campaign, 3, **times)
    sealed = add(price, tmp_path, store, all_served.writer.folder)
    assert (sealed.log_rows, sealed.log_head) == all_served.head
    # Published again after an interruption, it stays.
    assert add(price, tmp_path, store, all_served.writer.folder) == sealed
    assert store.read(campaign.name, 3) == sealed
    next(all_served.writer.folder.glob("decisions-*")).write_bytes(b"damaged")
    assert add(price_of(campaign, 4, **times), tmp_path, store, all_served.writer.folder).log_head == ""
    assert "the price has no head of the decision log" in capsys.readouterr().out


@pytest.mark.parametrize("open_ledger", ["sqlite"], indirect=True)
def test_a_head_of_an_earlier_window_is_of_another_log_and_one_of_this_window_is_not(all_served):
    campaign, (store,), receipts = all_served.ledger.campaign, all_served.receipts.prices, all_served.receipts
    other = {"log_rows": 7, "log_head": 64 * "a"}
    store.publish(price_of(campaign, 3, window=campaign.starts_at - timedelta(days=1), **other))
    assert receipts.check_heads() == 1
    store.publish(price_of(campaign, 4, window=campaign.starts_at, **other))
    with pytest.raises(Conflict, match=r"the first 7 decisions of .* are not those that price version 4"):
        receipts.check_heads()


ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
"""Roots of the test vectors of Certificate Transparency, for the first 1, 2, … leaves."""
LEAVES = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]


def test_the_tree_is_that_of_certificate_transparency():
    leaves = [verify_receipt.sha256(b"\0" + bytes.fromhex(each)).digest() for each in LEAVES]
    for size, known in enumerate(ROOTS, 1):
        assert root(leaves[:size]).hex() == known
        for place in range(size):
            beside = [each.hex() for each in path(leaves[:size], place)]
            assert verify_receipt.root_of(leaves[place], place, size, beside).hex() == known


@pytest.mark.parametrize("open_ledger", ["sqlite"], indirect=True)
def test_kept_blocks_give_the_head_of_the_whole_log_and_may_be_lost(open_ledger, kit, tmp_path, monkeypatch):
    monkeypatch.setattr(tree, "BLOCK", 64)
    ledger, kept = open_ledger(limit=10**9), tmp_path / "tree.txt"
    writer = LogWriter(ledger.store, tmp_path / "log")
    for first in (0, 40, 80, 120):
        ledger.authorize_calls([kit.item(f"r{number}") for number in range(first, first + 40)])
        writer.write()
        head = LogTree(writer.folder, kept).head()
        assert head == LogTree(writer.folder).head()
    leaves = list(map(leaf, ledger.store.decisions_after(0, 10**6)))
    assert head == (160, root(leaves).hex())
    assert kept.read_text().count("\n") == 160 // 64 + 1
    for row, rows in ((1, 160), (64, 160), (65, 160), (160, 160), (5, 64), (50, 100), (80, 90)):
        proof = LogTree(writer.folder, kept).proof(row, rows)
        assert proof == [each.hex() for each in path(leaves[:rows], row - 1)]
    # A long log is sealed in parts: each head is that of the rows so far.
    kept.unlink()
    assert LogTree(writer.folder, kept).head(64) == (64, root(leaves[:64]).hex())
    assert LogTree(writer.folder, kept).head(64) == (128, root(leaves[:128]).hex())
    assert LogTree(writer.folder, kept).head(64) == head
    kept.write_text("no hash")
    assert LogTree(writer.folder, kept).head() == head
    with pytest.raises(Conflict, match="has fewer than 161 decisions"):
        LogTree(writer.folder, kept).proof(1, 161)
