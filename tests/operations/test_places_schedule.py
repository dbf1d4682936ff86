"""A delivery whose price is solved again every hour, against the assignment of the accounts that came."""

import json
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linear_sum_assignment

from operations.common import ledger_reads
from operations.common.solver import Solver
from operations.measure import before_start, state_of
from operations.publish import add
from serving.ledger.api.authorize import ceiling, entries
from serving.ledger.api.items import Items
from serving.ledger.api.messages import Authorizations
from serving.ledger.api.queries import Wanted
from serving.ledger.api.usage import owners_now
from serving.ledger.opening import open_store
from serving.ledger.records import lone
from shadowprice.campaign import Budget, Campaign, Segment, Terms
from shadowprice.errors import Conflict, InvalidInput, NotCertified
from shadowprice.pacing.forecast import Profile
from shadowprice.pacing.history import Traffic
from shadowprice.pacing.population import write_population
from shadowprice.pacing.price_store import PriceStore
from shadowprice.pacing.replay.day import Accounts
from shadowprice.policy import Choices
from shadowprice.responses.layers.heads import DeliveryHead, save_heads

COUNT, STRANGERS, HOURS, RISK = 400, 24, 6, np.array([-np.inf, 1.0, 2.0])


class Delivery:
    """A workspace with a model of values, a ledger, and accounts that ask."""

    def __init__(self, folder: Path, sizes: tuple[int, ...], nothing: bool) -> None:
        random = np.random.default_rng(4)
        given = [Segment(name=f"fund {j}", demand=n, risk_level=j or None) for j, n in enumerate(sizes)]
        given += [Segment(name="none", demand=COUNT - sum(sizes))] * nothing
        self.levels = len(given)
        self.campaign = Campaign(
            name="funds",
            sides={"customer": Terms(levels=range(self.levels), cost_basis="on_grant", segments=tuple(given))},
            budget=Budget(name="none-of-it", limit=0),
            starts_at=datetime.now(UTC).replace(microsecond=0),
            hours=HOURS,
        )
        self.value = np.zeros((self.levels, COUNT), dtype=np.float32)
        self.value[: len(sizes)] = random.gamma(2.0, 500.0, (len(sizes), COUNT))
        self.risk = np.append(RISK, -np.inf)[: self.levels]
        self.tolerance = random.choice([0.0, 1.0, 2.0], COUNT, p=[0.3, 0.3, 0.4])
        self.names = np.array([f"a{i}" for i in range(COUNT)])
        stored = np.zeros((COUNT, 64), dtype=np.float32)
        stored[:, : self.levels], stored[:, self.levels] = self.value.T, self.tolerance
        unknown = stored.mean(axis=0)
        unknown[self.levels] = -1e30
        head = DeliveryHead(levels=np.arange(self.levels), default_embedding=unknown, risk_level=self.risk)
        self.unknown = head.response(unknown[None])[:, 0]
        (folder / "model").mkdir()
        (folder / "campaign.json").write_text(json.dumps(self.campaign.to_dict()))
        (folder / "model" / "model.json").write_text(json.dumps({"model_version": "m1"}))
        save_heads({"customer": head}, folder / "model")
        frame = pd.DataFrame({"account_id": self.names, "side": "customer", "embedding": list(stored)})
        frame.to_parquet(folder / "model" / "embeddings.parquet", index=False)
        self.traffic = Traffic(
            {"customer": Profile(np.ones(24), COUNT * 4)}, {"customer": Accounts(self.names, np.ones(COUNT))}
        )
        heads = {"customer": head}
        write_population(folder / "population" / "m1", heads, folder / "model" / "embeddings.parquet", self.traffic)
        self.folder, self.prices, self.answers = folder, PriceStore(folder / "prices"), dict[str, tuple[int, str]]()
        self.store = open_store(self.campaign, folder / "ledger.db")
        self.left = [np.inf if entry.gives_nothing else entry.demand for entry in given]

    def solve(self, at: float) -> None:
        """Measure, solve and publish, as the hourly job does."""
        state = before_start(self.campaign, self.traffic)
        if at >= 0:
            now = datetime.now(UTC)
            asked = {"customer": len(self.answers), "merchant": 0}
            use = ledger_reads.read_cap_use("", self.campaign, now)
            spend = replace(state.spend, requests=asked, caps=use, observed_at=now)
            observed = {"customer": np.zeros(int(at), dtype=np.int64)}
            state = state_of(self.campaign, self.traffic, at, observed, spend, {}, {}, {})
        add(Solver(self.folder).solve(state).record, self.folder, self.prices)

    def ask(self, names: list[str]) -> None:
        """Decide a call at the newest price, and authorize it."""
        price = self.prices.latest(self.campaign.name)
        assert price is not None
        place = [int(name[1:]) if name[0] == "a" else -1 for name in names]
        value = np.where(np.array(place) >= 0, self.value[:, place], self.unknown[:, None])
        tolerance = np.where(np.array(place) >= 0, self.tolerance[place], -1e30)
        allowed = self.risk[:, None] <= tolerance
        choices = Choices.of(self.campaign, "customer", value, allowed=allowed)
        at = price.of(self.campaign.priced)
        decided = choices.decide(at, price.tie_share, names)
        further, n = choices.further(at, decided.level), len(names)
        items = Items(
            request_id=[f"r-{name}-{price.version}" for name in names],
            account_id=names,
            side=["customer"] * n,
            level=decided.level.tolist(),
            incentive=[0] * n,
            response=value[decided.level, np.arange(n)].tolist(),
            expected_cost=[0.0] * n,
            propensity=decided.propensity.tolist(),
            propensities=decided.policy.propensities().T.tolist(),
            reason=["optimal"] * n,
            further_levels=further,
            further_responses=[value[own, i].tolist() for i, own in enumerate(further)],
        )
        batch = Authorizations(
            campaign=self.campaign.name, model_version="m1", price_version=price.version, items=items
        )
        rows = entries(self.campaign, batch, datetime.now(UTC))
        most = ceiling(self.campaign, True, datetime.now(UTC))
        answers = lone(self.store.authorize([rows], most, self.store.date()).result(20))
        for row, (name, answer) in enumerate(zip(names, answers, strict=True)):
            wished, made = int(decided.level[row]), answer.decision
            # Counted here, without the ledger: the best at the prices of what is free.
            found = next((j for j in (wished, *further[row]) if self.left[j] > 0), -1)
            assert made.level == found
            assert found < 0 or allowed[found, row]
            assert made.limited_by == ("" if found == wished else self.campaign.segments[wished].name)
            self.left[found] -= found >= 0
            self.answers[name] = made.level, made.limited_by

    def run(self, orders: list[np.ndarray]) -> None:
        """Solve before the window and at each hour; the accounts of an hour come in calls of ten."""
        self.solve(-1.0)
        for hour, coming in enumerate(orders):
            self.solve(float(hour))
            for call in np.array_split(coming, max(len(coming) // 10, 1)):
                self.ask(call.tolist())


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    opened: list[Delivery] = []

    def make(*sizes: int, nothing: bool = False) -> Delivery:
        delivery = Delivery(tmp_path, sizes, nothing)
        opened.append(delivery)

        def read(_: str, path: str, parameters: dict[str, object]) -> dict[str, object]:
            assert path == "/v1/usage"
            wanted = Wanted(str(parameters["name"]), "", str(parameters.get("after", "")), 150)
            page = asdict(owners_now(delivery.campaign, delivery.store.owners, wanted, datetime.now(UTC)))
            return page | {"first": page["first"] and page["first"].isoformat()}

        monkeypatch.setattr(ledger_reads, "_read", read)
        return delivery

    yield make
    for delivery in opened:
        delivery.store.close()


def best(delivery: Delivery, names: list[str]) -> float:
    """The optimal assignment of the accounts that came, each in a place or in none."""
    place = np.array([int(name[1:]) if name[0] == "a" else -1 for name in names])
    known = place >= 0
    value = np.where(known, delivery.value[:, place], delivery.unknown[:, None]).astype(float)
    allowed = delivery.risk[:, None] <= np.where(known, delivery.tolerance[place], -np.inf)
    seats = np.repeat(np.arange(delivery.levels), [segment.demand for segment in delivery.campaign.segments])
    gain = np.where(allowed, value, -1e9)[seats]
    rows, columns = linear_sum_assignment(gain, maximize=True)
    return float(gain[rows, columns].sum())


def earned(delivery: Delivery) -> float:
    total = 0.0
    for name, (level, _) in delivery.answers.items():
        if level >= 0:
            total += delivery.value[level, int(name[1:])] if name[0] == "a" else delivery.unknown[level]
    return total


def placed(delivery: Delivery) -> list[int]:
    levels = [level for level, _ in delivery.answers.values()]
    return [levels.count(level) for level in range(delivery.levels)]


def test_a_schedule_fills_every_segment_exactly_and_near_the_optimum_of_the_same_arrivals(made) -> None:
    """Accounts that are bold come first, and strangers take places that the plan counted for others."""
    delivery = made(180, 120, 100)
    random = np.random.default_rng(0)
    early = np.argsort(-delivery.tolerance + random.normal(0.0, 1.0, COUNT))
    orders = [list(delivery.names[part]) for part in np.array_split(early, HOURS)]
    for hour in (1, 2):
        orders[hour] += [f"s{hour}-{k}" for k in range(STRANGERS // 2)]
    delivery.run([random.permutation(order) for order in orders])
    assert placed(delivery) == [180, 120, 100]
    assert sum(bool(limited) for _, limited in delivery.answers.values()) > 0
    optimum = best(delivery, list(delivery.answers))
    assert 0.95 * optimum < earned(delivery) <= optimum * (1 + 1e-6)


def test_a_delivery_with_none_gives_its_places_to_the_best_accounts(made) -> None:
    delivery = made(120, 80, 60, nothing=True)
    order = np.random.default_rng(1).permutation(delivery.names)
    delivery.run(np.array_split(order, HOURS))
    assert placed(delivery) == [120, 80, 60, 140]
    assert earned(delivery) == pytest.approx(best(delivery, order.tolist()), rel=1e-6)
    with pytest.raises(Conflict, match="has a price already"):
        delivery.solve(HOURS - 1.0)


def test_a_state_without_the_places_or_with_too_few_accounts_left_is_not_priced(made) -> None:
    delivery = made(180, 120, 100)
    delivery.solve(-1.0)
    state = before_start(delivery.campaign, delivery.traffic)
    with pytest.raises(InvalidInput, match="has no use of one-place, fund 0, fund 1, fund 2; measure again"):
        Solver(delivery.folder).solve(replace(state, spend=replace(state.spend, caps={})))
    # The bold are placed elsewhere: nobody may enter the last segment any more.
    bold = delivery.names[delivery.tolerance == 2][:150].tolist()
    newest = delivery.prices.latest("funds")
    away = {name: 0.0 if name == "fund 0" else 1e9 for name in newest.prices}
    delivery.prices.publish(replace(newest, version=2, prices=away, solved_at=datetime.now(UTC), sha256="").sealed())
    delivery.ask(bold)
    with pytest.raises(NotCertified, match=r"there is no plan: .*'fund 2'"):
        delivery.solve(0.0)
