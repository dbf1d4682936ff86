"""Job ``offpolicy`` on a log with arms."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from served_log import CAMPAIGN, TRUTH, write_log, write_segments

from operations import __main__ as command
from operations.offpolicy import OffpolicyJob, run
from operations.whatif import WhatifJob
from operations.whatif import run as whatif
from shadowprice.campaign import Campaign, Terms
from shadowprice.decision import decide
from shadowprice.errors import InvalidInput
from shadowprice.experiments.logged_policy import PolicyEstimate
from shadowprice.limits import GroupBudget, Limits, Rule
from shadowprice.limits.attributes import columns_file
from shadowprice.pacing.decision_log.segments import SCHEMAS
from shadowprice.pacing.forecast import Profile
from shadowprice.pacing.history import Traffic
from shadowprice.pacing.population import write_population
from shadowprice.pacing.price_store import PriceStore
from shadowprice.pacing.replay.day import Accounts
from shadowprice.price import PriceRecord
from shadowprice.responses.layers.heads import HazardHead, save_heads


@pytest.fixture
def campaign_file(tmp_path: Path) -> Path:
    path = tmp_path / "campaign.json"
    path.write_text(json.dumps(CAMPAIGN.to_dict()))
    return path


def job(folder: Path, campaign: Path, **fields: object) -> OffpolicyJob:
    """A job on the log in ``folder``."""
    places = {"log": folder / "log", "campaign": campaign, "result": folder / "found.json", "page": folder / "found.md"}
    return OffpolicyJob(**places, **fields)  # type: ignore[arg-type]


def test_an_arm_is_re_evaluated_to_the_sums_of_the_lift(tmp_path: Path, campaign_file: Path) -> None:
    write_log(tmp_path / "log")
    flags = {"log": tmp_path / "log", "campaign": campaign_file, "mature-hours": 24}
    flags |= {"result": tmp_path / "lift.json", "page": tmp_path / "lift.md"}
    assert command.main(["lift", *(text for name, value in flags.items() for text in (f"--{name}", str(value)))]) == 0
    arms = {each["arm"]: each for each in json.loads((tmp_path / "lift.json").read_text())["arms"]}
    for name, arm in arms.items():
        given = [*flags.items(), ("arm", name)]
        assert command.main(["offpolicy", *(text for key, value in given for text in (f"--{key}", str(value)))]) == 0
        found = json.loads((tmp_path / "lift.json").read_text())
        assert found["requests"] == arm["requests"]
        assert found["value"]["value"] * found["requests"] == pytest.approx(arm["value"], rel=1e-9)
        assert found["cost"]["value"] * found["requests"] == pytest.approx(arm["cost"], rel=1e-9)


def test_one_level_for_all_covers_its_true_response_and_cost(tmp_path: Path, campaign_file: Path) -> None:
    write_log(tmp_path / "log")
    found = run(job(tmp_path, campaign_file, level=1, mature_hours=24))
    # One log, so two times the half width.
    for each, truth in ((found.value, TRUTH[1]), (found.cost, TRUTH[1] * CAMPAIGN.terms("customer").levels[1])):
        assert abs(each.value - truth) <= each.high - each.low
    assert found.effective_rows < found.requests
    page = (tmp_path / "found.md").read_text()
    assert "level 1 for all" in page
    assert "nan" not in page
    with pytest.raises(InvalidInput, match="rarely gave what the policy gives"):
        run(job(tmp_path, campaign_file, level=0, mature_hours=24))


@dataclass
class Served:
    """A workspace and a log of 4,000 uniform draws; the truth (J, N) lies above the model's curves (J, N)."""

    campaign: Campaign
    traffic: Traffic
    accounts: list[str]
    level: list[int]
    redeemed: np.ndarray
    response: np.ndarray
    truth: np.ndarray

    def brings(self, price: float, taken: np.ndarray | float = 0.0, allowed: np.ndarray | None = None):
        """True value and cost of each request at a price of money."""
        net, ids = self.campaign.net_cost("customer", self.response), [f"r{row}" for row in range(len(self.level))]
        able = np.ones(len(ids), dtype=bool) if allowed is None else allowed.any(axis=0)
        chosen = np.zeros(self.response.shape)
        chosen[:, able] = decide(
            (self.response - taken)[:, able].astype(float),
            net[:, able],
            [price],
            0.5,
            [name for name, may in zip(ids, able, strict=True) if may],
            None if allowed is None else allowed[:, able],
        ).policy.propensities()
        paid = np.array(self.campaign.terms("customer").levels)[:, None]
        return (chosen * self.truth).sum(axis=0), (chosen * self.truth * paid).sum(axis=0)


@pytest.fixture
def served(tmp_path: Path) -> Served:
    random = np.random.default_rng(0)
    levels, accounts, n = (0, 50, 100, 200), 900, 4000
    customer = HazardHead(
        levels=np.array(levels),
        weight=random.normal(0, 0.3, (4, 8)).astype(np.float32),
        bias=random.normal(-3, 0.3, 4).astype(np.float32),
        default_embedding=np.zeros(8, dtype=np.float32),
        base_weight=random.normal(0, 0.3, 8).astype(np.float32),
        base_bias=-2.0,
    )
    embedding = random.normal(size=(accounts, 8)).astype(np.float32)
    names = np.array([f"c{each}" for each in range(accounts)])
    campaign = replace(CAMPAIGN, sides={"customer": Terms(levels=levels)}, experiment=None, exploration=0.5)
    (tmp_path / "campaign.json").write_text(json.dumps(campaign.to_dict()))
    (tmp_path / "model").mkdir()
    save_heads({"customer": customer}, tmp_path / "model")
    (tmp_path / "model" / "model.json").write_text(json.dumps({"model_version": "m1"}))
    frame = pd.DataFrame({"account_id": names, "side": "customer", "embedding": list(embedding)})
    frame.to_parquet(tmp_path / "embeddings.parquet", index=False)
    traffic = Traffic({"customer": Profile(np.ones(24), 100.0)}, {"customer": Accounts(names, np.ones(accounts))})
    write_population(tmp_path / "population" / "m1", {"customer": customer}, tmp_path / "embeddings.parquet", traffic)

    who, level = random.integers(0, accounts, n), random.integers(0, 4, n)
    response = customer.response(embedding[who])
    truth = np.minimum(response + 0.05, 1.0)
    redeemed = random.random(n) < truth[level, np.arange(n)]
    write_segments(tmp_path / "log", names[who].tolist(), level.tolist(), redeemed, levels, [0.25] * 4)
    return Served(campaign, traffic, names[who].tolist(), level.tolist(), redeemed, response, truth)


def test_a_price_and_a_budget_cover_what_they_would_have_brought(tmp_path: Path, served: Served) -> None:
    n, levels = len(served.level), served.campaign.terms("customer").levels
    for fields in ({"price": 0.002}, {"budget": 60_000}):
        found = run(job(tmp_path, tmp_path / "campaign.json", workspace=tmp_path, mature_hours=0, **fields))
        content = json.loads((tmp_path / "found.json").read_text())
        for each, truth in zip((found.value, found.cost), served.brings(content["policy"]["price"]), strict=True):
            assert abs(each.value * n - truth.sum()) <= n * (each.high - each.low)
        assert found.estimator == "dr"
    assert found.cost.value * n == pytest.approx(60_000, rel=0.01)

    # What-if reads the same estimate, and refuses where the log never gave the levels.
    served.traffic.save(tmp_path)
    question = WhatifJob(workspace=tmp_path, answer=tmp_path / "a.json", log=tmp_path / "log", mature_hours=0, rows=0)
    answer = whatif(question)
    price = answer["current"]["prices"]["budget"]
    same = run(job(tmp_path, tmp_path / "campaign.json", workspace=tmp_path, mature_hours=0, price=price))
    assert answer["logged"]["current"]["value"]["value"] == pytest.approx(same.value.value)
    assert len(answer["logged"]["curve"]) == len(answer["curve"])
    levels_kept = whatif(replace(question, levels={"customer": [0, 50]}))
    assert "leave levels" in levels_kept["logged"]["asked"]["refused"]
    ones = [1] * n
    write_segments(tmp_path / "one", served.accounts, ones, served.redeemed, levels, [0.0, 1.0, 0.0, 0.0])
    refused = whatif(replace(question, log=tmp_path / "one"))["logged"]["current"]["refused"]
    assert "the log" in refused


def test_a_budget_is_found_where_the_log_never_gave_what_lower_prices_give(tmp_path: Path, served: Served) -> None:
    levels = served.campaign.terms("customer").levels
    below = [min(each, 2) for each in served.level]
    write_segments(tmp_path / "low", served.accounts, below, served.redeemed, levels, [0.25, 0.25, 0.5, 0.0])

    def found(**fields: float) -> PolicyEstimate:
        places = {"result": tmp_path / "found.json", "page": tmp_path / "found.md", "log": tmp_path / "low"}
        return run(replace(job(tmp_path, tmp_path / "campaign.json", **fields, **shared), **places))

    shared = {"workspace": tmp_path, "mature_hours": 0}
    with pytest.raises(InvalidInput, match="could not give level 3"):
        found(price=0.0)
    # From 0.005 on, level 3 costs more than it brings.
    at_price = found(price=0.006)
    assert found(budget=round(at_price.cost.value * at_price.requests)).cost.value == pytest.approx(
        at_price.cost.value, rel=0.01
    )
    assert json.loads((tmp_path / "found.json").read_text())["policy"]["price"] == pytest.approx(0.006, rel=0.1)


def test_a_budget_is_estimated_where_a_few_requests_could_not_get_a_level(tmp_path: Path, served: Served) -> None:
    def stopped(frame: pd.DataFrame) -> pd.DataFrame:
        late = frame["level"].to_numpy() < 3
        late &= late.cumsum() <= 5
        shares = [
            [1 / 3, 1 / 3, 1 / 3, 0.0] if row else each for row, each in zip(late, frame["propensities"], strict=True)
        ]
        return frame.assign(propensities=shares)

    shared = {"workspace": tmp_path, "mature_hours": 0, "price": 0.0}
    before = run(job(tmp_path, tmp_path / "campaign.json", **shared))
    rewrite_decisions(tmp_path / "log", stopped)
    found = run(job(tmp_path, tmp_path / "campaign.json", **shared))
    assert 0 < found.outside <= 5
    assert found.requests + found.outside == before.requests
    assert found.value.low < before.value.value < found.value.high
    content, page = json.loads((tmp_path / "found.json").read_text()), (tmp_path / "found.md").read_text()
    assert content["outside"] == found.outside
    assert content["ineligible"] == 0
    assert (
        f"{found.outside} requests, {found.outside / before.requests:.2%} of all and {found.outside_value:.2%}" in page
    )


def rewrite_decisions(log: Path, change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    """Change the decisions of a log of one segment."""
    (file,) = log.glob("decisions*")
    table = pa.Table.from_pandas(change(pd.read_parquet(file)), schema=SCHEMAS["decisions"], preserve_index=False)
    pq.write_table(table, file)


def test_requests_that_were_given_nothing_are_left_out_and_counted(tmp_path: Path, served: Served) -> None:
    def stopped(frame: pd.DataFrame) -> pd.DataFrame:
        rows = frame.index < 10
        shares = [[] if row else each for row, each in zip(rows, frame["propensities"], strict=True)]
        return frame.assign(level=frame["level"].mask(rows, -1), propensities=shares)

    rewrite_decisions(tmp_path / "log", stopped)
    found = run(job(tmp_path, tmp_path / "campaign.json", mature_hours=0, level=1))
    assert found.requests == len(served.level) - 10
    assert "10 requests that were given nothing are left out." in (tmp_path / "found.md").read_text()
    assert json.loads((tmp_path / "found.json").read_text())["given_nothing"] == 10
    served.traffic.save(tmp_path)
    question = WhatifJob(workspace=tmp_path, answer=tmp_path / "a.json", log=tmp_path / "log", mature_hours=0, rows=0)
    told = whatif(question)["logged"]
    assert (told["current"]["requests"], told["given_nothing"]) == (found.requests, 10)
    rewrite_decisions(tmp_path / "log", lambda frame: frame.assign(level=-1))
    with pytest.raises(InvalidInput, match="no such decision gave a level"):
        run(job(tmp_path, tmp_path / "campaign.json", mature_hours=0, level=1))


def test_what_if_says_that_a_log_without_propensities_has_no_estimate(tmp_path: Path, served: Served) -> None:
    rewrite_decisions(tmp_path / "log", lambda frame: frame.assign(propensities=[[]] * len(frame)))
    served.traffic.save(tmp_path)
    question = WhatifJob(workspace=tmp_path, answer=tmp_path / "a.json", log=tmp_path / "log", mature_hours=0, rows=0)
    assert "one number for each level" in whatif(question)["logged"]["current"]["refused"]


def test_a_price_decides_under_the_rules_and_at_the_prices_of_further_budgets(tmp_path: Path, served: Served) -> None:
    names = sorted(set(served.accounts))
    north = pd.Series(np.random.default_rng(1).random(len(names)) < 0.5, index=names)
    regions = pd.DataFrame(
        {"account_id": names, "c_region": np.where(north, "north", "south"), "x_age": range(len(names))}
    )
    regions.to_parquet(tmp_path / columns_file("customer"))
    limits = Limits(budgets=(GroupBudget(name="north", limit=100, where='account.c_region == "north"'),))
    rules = (
        Rule(name="dear", expression='account.c_region == "south" && offer.incentive > 100'),
        Rule(name="young", expression="account.x_age < 90"),
    )
    (tmp_path / "campaign.json").write_text(json.dumps(replace(served.campaign, limits=limits, rules=rules).to_dict()))
    now = datetime.now(UTC)
    figures = dict.fromkeys(("tie_share", "primal", "dual", "gap", "violation"), 0.0)
    PriceStore(tmp_path / "prices").publish(
        PriceRecord(
            campaign="spring",
            version=1,
            slot=0,
            prices={"budget": 1.0, "north": 0.004},
            status="optimal",
            spent=0,
            remaining=1,
            sample_rows=1,
            model_version="m1",
            solved_at=now,
            expires_at=now,
            **figures,
        ).sealed()
    )
    found = run(job(tmp_path, tmp_path / "campaign.json", workspace=tmp_path, mature_hours=0, price=0.001))
    age = dict(zip(names, range(len(names)), strict=True))
    old = np.array([age[name] >= 90 for name in served.accounts])
    inside = north[served.accounts].to_numpy()
    paid = np.array([0, 50, 100, 200])[:, None]
    expected = served.brings(0.001, 0.004 * paid * served.response * inside, old & (inside | (paid <= 100)))
    assert found.requests == old.sum() < len(old)
    for each, truth in zip((found.value, found.cost), expected, strict=True):
        assert abs(each.value - truth[old].mean()) <= each.high - each.low
    # What-if asks the log at the prices of all budgets of each answer.
    served.traffic.save(tmp_path)
    answer = whatif(
        WhatifJob(
            workspace=tmp_path,
            answer=tmp_path / "a.json",
            log=tmp_path / "log",
            mature_hours=0,
            rows=0,
            limits={"north": 300},
            budget=11_000,
        )
    )
    for asked in ("current", "asked"):
        prices, told = answer[asked]["prices"], answer["logged"][asked]
        assert prices["north"] > 0
        taken = prices["north"] * paid * served.response * inside
        expected = served.brings(prices["budget"], taken, old & (inside | (paid <= 100)))
        for each, truth in zip((told["value"], told["cost"]), expected, strict=True):
            assert abs(each["value"] - truth[old].mean()) <= each["high"] - each["low"]
    assert answer["asked"]["prices"]["north"] < answer["current"]["prices"]["north"]
    without = served.brings(0.001)[1][old].mean()
    assert found.cost.high < 0.8 * without
    assert f"{(~old).sum():,} requests that the rules allow no level" in (tmp_path / "found.md").read_text()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "exactly one of arm, price, budget and level"),
        ({"level": 1, "arm": "policy"}, "exactly one of arm, price, budget and level"),
        ({"price": 0.01}, "workspace: is needed for a price or a budget"),
        ({"level": 7}, "level: side customer has the levels 0 to 2, got 7"),
        ({"arm": "polcy"}, "there is no arm 'polcy'"),
        ({"level": 1, "mature_hours": 1000}, "no such decision is 1000 hours old"),
        ({"level": 1, "estimator": "dr"}, "dr needs a model"),
        ({"level": 1, "side": "merchant"}, "merchant"),
    ],
)
def test_a_question_that_cannot_be_answered_is_refused(
    fields: dict[str, object],
    message: str,
    tmp_path: Path,
    campaign_file: Path,
) -> None:
    write_log(tmp_path / "log")
    with pytest.raises(InvalidInput, match=message):
        run(job(tmp_path, campaign_file, **fields))
