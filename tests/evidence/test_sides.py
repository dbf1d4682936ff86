"""Evidence read from tables: the figures of the files, weights, clusters and the sentence."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from shadowprice.currency import Currency
from shadowprice.datasets import load
from shadowprice.evaluation.uplift.evidence import SideEvidence
from shadowprice.evidence.rows import read_features, read_rows
from shadowprice.evidence.sides import evidence_of
from shadowprice.learning.propensity import Weighting, weigh
from shadowprice.storage import from_json, to_json
from shadowprice.tables import Tables, campaign_from_tables, labeled

USD = Currency()
DAY = pd.Timestamp("2026-03-02", tz="UTC")


def evidence(tables: Tables, **more: object) -> SideEvidence:
    (found,) = evidence_of(tables, campaign_from_tables(tables), USD, **more)  # type: ignore[arg-type]
    return found


def test_the_figures_are_those_of_the_files(make) -> None:
    trial, tables = make()
    found = evidence(tables)
    assert [each.rows for each in found.levels] == np.bincount(trial.level).tolist()
    assert [each.accounts for each in found.levels] == np.bincount(trial.level).tolist()
    for each in found.levels:
        own = trial.level == each.level
        assert each.response.value == pytest.approx(trial.response[own].mean())
        assert each.cost.value == pytest.approx(each.incentive * trial.response[own].mean())
        assert each.planned == pytest.approx(0.25)
    assert found.verdict == "identified"
    assert found.clusters == 3000
    assert not found.weighted
    assert found.plan == ""
    top = found.levels[3]
    assert f"{100 * top.response.value:.1f} % responded" in found.sentence
    assert found.sentence.startswith("Identified: the response rises with the incentive. At $9.00 ")
    assert f"One extra response there costs {USD.write(top.cost_each.value)} (" in found.sentence
    assert from_json(SideEvidence, to_json(found)) == found


def test_without_an_effect_the_sentence_says_so_with_the_interval_and_a_trial_is_planned(make) -> None:
    found = evidence(make(effect=0.0, seed=1)[1], workspace=Path("runs/a b"))
    assert found.verdict == "not identified"
    assert found.sentence.startswith(
        "Not identified: the log does not show that the incentive raises the response. At "
    )
    assert "95 % interval −" in found.sentence
    assert found.plan.startswith("shadowprice plan 'runs/a b' --accounts ")


def test_requests_without_a_final_outcome_do_not_count(make) -> None:
    trial, tables = make()
    outcome = tables.outcome.copy()
    outcome["mature"] = np.arange(len(outcome)) % 3 > 0
    found = evidence(tables.replaced(outcome=outcome))
    assert found.rows == int(outcome["mature"].sum())
    kept = outcome["mature"].to_numpy(dtype=bool)
    assert found.levels[2].response.value == pytest.approx(trial.response[kept & (trial.level == 2)].mean())


def test_partners_that_requests_name_are_clusters(make) -> None:
    _, tables = make(accounts=2000)
    shops = pd.DataFrame({"account_id": [f"m{k}" for k in range(20)], "side": "merchant"})
    account = pd.concat([tables.account, shops.assign(snapshot_ts=tables.account["snapshot_ts"].iloc[0])])
    partner = [f"m{k % 20}" for k in range(2000)]
    named = tables.replaced(account=account.reset_index(drop=True), exposure=tables.exposure.assign(partner_id=partner))
    assert evidence(named).clusters == 20
    assert read_rows(named, "customer").partner is not None
    # Where no request names one, the largest sum of ties does.
    ties = pd.DataFrame(
        {
            "src": tables.account["account_id"],
            "dst": [f"m{k % 25 % 20}" for k in range(2000)],
            "relation": "paid_at",
            "weight": 1.0,
            "ts": tables.account["snapshot_ts"],
        }
    )
    tied = tables.replaced(account=account.reset_index(drop=True), edge=ties)
    assert evidence(tied).clusters == 20


def test_features_are_of_the_profile_before_the_offer_and_never_of_a_later_one(make) -> None:
    _, tables = make(accounts=1000)
    spoiled = tables.account.assign(
        snapshot_ts=tables.account["snapshot_ts"] + pd.Timedelta(days=60),
        x_age=tables.exposure["propensity"].to_numpy(),
    )
    level = np.searchsorted([0.0, 300.0, 600.0, 900.0], tables.outcome["cost_paid"])
    later = pd.concat([tables.account, spoiled.assign(x_age=level.astype(float))], ignore_index=True)
    both = tables.replaced(account=later)
    assert read_features(both, "customer")["x_age"].to_numpy() == pytest.approx(tables.account["x_age"].to_numpy())
    found = evidence(both)
    assert found.balance is not None
    assert found.balance.features == 4
    assert found.balance.p_value > 0.001


def test_an_assignment_that_depends_on_a_feature_is_named_in_the_sentence(make) -> None:
    _, tables = make(accounts=4000)
    old = (tables.account["x_age"] > 41).to_numpy()
    offer = np.where(old, "o900", "o0")
    exposure = tables.exposure.assign(offer_id=np.where(np.arange(4000) % 2 == 0, offer, tables.exposure["offer_id"]))
    found = evidence(tables.replaced(exposure=exposure))
    assert found.balance is not None
    assert found.balance.worst == "age"
    assert found.verdict == "not identified"
    assert "Not identified: the accounts of the levels differed before the trial (most by age, by 1.1" in found.sentence


def test_a_small_imbalance_is_named_and_does_not_decide(make) -> None:
    _, tables = make(accounts=40_000)
    random = np.random.default_rng(3)
    # Old accounts get the highest level a little more often: 0.06 standard deviations, beyond chance.
    moved = (tables.account["x_age"] > 41).to_numpy() & (random.random(40_000) < 0.045)
    offered = tables.exposure["offer_id"].mask(moved, "o900")
    found = evidence(tables.replaced(exposure=tables.exposure.assign(offer_id=offered)))
    assert found.balance is not None
    assert found.balance.p_value < 1e-4
    assert abs(found.balance.difference) < 0.1
    assert found.verdict == "identified"
    assert "The accounts of the levels differed before the trial (most by age, p = " in found.sentence


def test_a_log_of_accounts_that_were_chosen_does_not_pass_whatever_its_propensities_claim(make) -> None:
    # Rich accounts get the gift, and respond more with and without it: no effect at all, a difference of 10 points.
    random, n = np.random.default_rng(5), 4000
    rich = random.random(n) < 0.5
    gift = np.where(random.random(n) < 0.8, rich, ~rich)
    _, drawn = make("gift", accounts=n)
    tables = drawn.replaced(
        account=drawn.account.assign(x_rich=rich.astype(float)),
        offer=drawn.offer[:2],
        exposure=drawn.exposure.assign(offer_id=np.where(gift, "o100", "o0"), propensity=0.5),
        outcome=drawn.outcome.assign(redeemed=(random.random(n) < np.where(rich, 0.25, 0.08)).astype(int)),
    )
    found = evidence(tables)
    top = found.levels[1].difference
    assert top is not None
    assert top.low > 0.05
    assert found.verdict == "not identified"
    chance = np.where(rich == gift, 0.8, 0.2)
    weighted = evidence(tables.replaced(exposure=tables.exposure.assign(propensity=chance)))
    assert weighted.balance is not None
    assert weighted.balance.p_value > 0.001
    assert weighted.levels[1].difference is not None
    assert weighted.levels[1].difference.low < 0 < weighted.levels[1].difference.high


def test_propensities_that_differ_weight_the_rows_and_the_truth_is_inside() -> None:
    drawn = load("promotion", seed=2, rows=12_000, features=(3,), levels=(0, 50, 100), bias=1.0)
    found = evidence(drawn.tables)
    truth = drawn.truth.groupby("level")["response"].mean()
    assert found.weighted
    for each in found.levels[1:]:
        assert each.difference is not None
        rise = truth[each.level] - truth[0]
        half = each.difference.high - each.difference.value
        assert abs(each.difference.value - rise) < 1.5 * half


def test_balancing_weights_of_the_training_set_take_the_place_of_propensities(make, tmp_path: Path) -> None:
    _, tables = make(accounts=2000)
    rows = tmp_path / "rows-customer.parquet"
    weight = np.where(tables.account["x_age"] > 41, 2.0, 1.0)
    pd.DataFrame({"request_id": tables.exposure["request_id"], "balancing_weight": weight}).to_parquet(rows)
    found = evidence(tables, rows={"customer": rows})
    assert found.weighted
    assert "Rows are weighted by fitted propensities" in found.sentence
    own = tables.exposure["offer_id"] == "o900"
    y = tables.outcome["redeemed"].to_numpy(dtype=float)
    assert found.levels[3].response.value == pytest.approx(np.average(y[own], weights=weight[own]))
    plain = pd.DataFrame({"request_id": tables.exposure["request_id"]})
    plain.to_parquet(rows)
    assert not evidence(tables, rows={"customer": rows}).weighted


def test_weights_of_the_known_propensities_give_the_evidence_of_the_propensities(tmp_path: Path) -> None:
    drawn = load("promotion", seed=2, rows=12_000, features=(3,), levels=(0, 50, 100), bias=1.0)
    rows = tmp_path / "rows-customer.parquet"
    labels = labeled(drawn.tables, "customer")

    def weighted(tables: Tables, how: Weighting) -> SideEvidence:
        weights = weigh(labeled(tables, "customer"), 3, how)
        assert weights is not None
        labels[["request_id"]].assign(balancing_weight=weights.values).to_parquet(rows)
        return evidence(tables, rows={"customer": rows})

    assert weighted(drawn.tables, "known") == evidence(drawn.tables)
    # Without a draw, weights of 1 / 1 identify nothing.
    certain = drawn.tables.replaced(exposure=drawn.tables.exposure.assign(propensity=1.0))
    assert weighted(certain, "known").verdict == "not identified"


def switched_off(make: Any) -> tuple[Tables, float]:
    """A trial whose largest level was drawn in the first half alone, when everybody responded more; and its effect."""
    random, n = np.random.default_rng(4), 8000
    _, drawn = make("gift", accounts=n)
    early = np.arange(n) < n // 2
    level = np.where(early, random.integers(0, 3, n), random.integers(0, 2, n))
    rate = np.array([0.1, 0.15, 0.2])[level] + 0.25 * early
    tables = drawn.replaced(
        offer=drawn.offer[:3],
        exposure=drawn.exposure.assign(
            offer_id=np.array(["o0", "o100", "o200"])[level],
            propensity=np.where(early, 1 / 3, 1 / 2),
            decided_at=DAY + pd.to_timedelta(np.arange(n), unit="min"),
        ),
        outcome=drawn.outcome.assign(
            observed_at=DAY + pd.Timedelta(days=40), redeemed=(random.random(n) < rate).astype(int)
        ),
    )
    return tables, 0.1


def test_a_level_that_was_switched_off_is_compared_with_the_others_of_its_time(make) -> None:
    tables, effect = switched_off(make)
    found = evidence(tables)
    top = found.levels[2].difference
    assert top is not None
    assert top.low < effect < top.high < 0.15
    assert found.verdict == "identified"
    assert found.rows == pytest.approx(4000, abs=10)
    assert "from 2026-03-02 00:0" in found.sentence
    assert "of 8,000 requests. Keep only those" in found.sentence
    # Shares of the whole log for everybody hide the switch, and the log identifies nothing.
    share = tables.exposure["offer_id"].value_counts(normalize=True)
    constant = tables.replaced(exposure=tables.exposure.assign(propensity=tables.exposure["offer_id"].map(share)))
    hidden = evidence(constant)
    assert hidden.verdict == "not identified"
    assert "the levels were drawn at other times" in hidden.sentence


def test_a_level_that_some_accounts_could_not_get_is_not_compared_where_they_differ(make) -> None:
    tables, _ = switched_off(make)
    early = tables.exposure["propensity"] < 0.4
    moved = tables.exposure["decided_at"].to_numpy()[np.random.default_rng(1).permutation(len(early))]
    apart = tables.replaced(
        exposure=tables.exposure.assign(decided_at=pd.to_datetime(moved, utc=True)),
        account=tables.account.assign(c_region=np.where(early, "north", "south")),
    )
    found = evidence(apart)
    assert found.partial == (2,)
    assert found.levels[2].difference is None
    assert "had no chance of $2.00: the requests differ, so they are not compared." in found.sentence
    middle = found.levels[1].difference
    assert middle is not None
    assert middle.low < 0.05 < middle.high
    assert found.balance is None or found.balance.p_value > 0.001


def test_levels_with_reasons_are_judged_within_their_cells_and_nothing_is_compared(make) -> None:
    _, tables = make(accounts=4000, effect=4.0)
    exposure = tables.exposure.assign(x_shop=(np.arange(4000) % 7).astype(float))
    found = evidence(tables.replaced(exposure=exposure), confounders={"customer": ["x_shop"]})
    assert found.verdict == "identified"
    assert found.sample_ratio_p is None
    assert all(each.difference is None for each in found.levels)
    assert "Levels were not drawn at random; x_shop are held fixed." in found.sentence
    one = tables.exposure.assign(c_offer=tables.exposure["offer_id"])
    none = evidence(tables.replaced(exposure=one), confounders={"customer": ["c_offer"]})
    assert none.verdict == "not identified"
    assert none.sentence.startswith("Not identified: no group of alike requests was given two levels.")


def test_a_log_with_propensities_of_1_is_no_trial(make) -> None:
    _, tables = make(effect=6.0)
    found = evidence(tables.replaced(exposure=tables.exposure.assign(propensity=1.0)))
    assert found.verdict == "not identified"
    assert "every request has a propensity of 1" in found.sentence


def test_a_side_with_one_level_has_nothing_to_identify(make) -> None:
    _, tables = make(accounts=500)
    offer = tables.offer.iloc[:1]
    exposure = tables.exposure.assign(offer_id="o0", propensity=1.0)
    assert (
        evidence_of(
            tables.replaced(offer=offer, exposure=exposure), campaign_from_tables(tables.replaced(offer=offer)), USD
        )
        == ()
    )
