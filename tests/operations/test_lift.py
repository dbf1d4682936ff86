"""Jobs ``lift`` and ``plan`` on a log that the replay wrote: the command line gives the library's estimate."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from served_log import CAMPAIGN, GROUPS, START, TRUTH, write_log, write_segments

from operations import __main__ as command
from operations.common.accounts import accounts_of
from operations.lift import LiftJob, run
from shadowprice.arms import HOUR, Holdout, Unit
from shadowprice.campaign import Campaign, Terms
from shadowprice.errors import Conflict, InvalidInput, InvalidTable, NotCertified
from shadowprice.experiments import lift, plan
from shadowprice.experiments.columns import Columns
from shadowprice.experiments.planning import Precision, Prior
from shadowprice.experiments.served import served_requests
from shadowprice.graphs.snapshot import GraphSnapshot
from shadowprice.limits.attributes import INFLUENCE, read_influence
from shadowprice.pacing.decision_log.harvest import harvest
from shadowprice.pacing.decision_log.segments import Segment
from shadowprice.pacing.decision_log.served import read_log


@pytest.fixture
def campaign_file(tmp_path: Path) -> Path:
    path = tmp_path / "campaign.json"
    path.write_text(json.dumps(CAMPAIGN.to_dict()))
    return path


def test_the_command_reads_the_log_and_gives_the_estimate_of_its_rows(tmp_path: Path, campaign_file: Path) -> None:
    rows = write_log(tmp_path / "log")
    past = pd.DataFrame({"account_id": sorted(set(rows["account_id"]))[:-50]})
    past["earlier"] = np.random.default_rng(1).normal(size=len(past))
    past["region"] = np.where(past["account_id"].str[-1] < "5", "north", "south")
    past.to_parquet(tmp_path / "features.parquet")
    flags = {"log": tmp_path / "log", "campaign": campaign_file, "mature-hours": 24, "segment": "region"}
    flags |= {"figures": tmp_path / "figures.json"}
    flags |= {"features": tmp_path / "features.parquet", "result": tmp_path / "lift.json", "page": tmp_path / "lift.md"}
    assert command.main(["lift", *(text for name, value in flags.items() for text in (f"--{name}", str(value)))]) == 0
    found = json.loads((tmp_path / "lift.json").read_text())

    mature = rows[rows["hour"] <= rows["hour"].max() - 24 + 1e-6]
    assert (found["requests"], found["mature"]) == (len(rows), pytest.approx(len(mature), abs=1))
    mature = mature.merge(past, on="account_id", how="left")
    assigned = past.assign(arm=CAMPAIGN.experiment.arm_of(past["account_id"].tolist()))
    expected = lift(mature, "holdout", assigned, columns=Columns(covariates=("earlier",)))
    for one, other in zip(sorted(found["lifts"], key=lambda each: each["arm"]), expected, strict=True):
        assert one["arm"] == other.arm
        for name in ("value", "cost", "relative", "per_money", "total"):
            for part in ("value", "error", "low", "high"):
                assert one[name][part] == pytest.approx(getattr(getattr(other, name), part), rel=1e-6)
    policy = next(each for each in found["lifts"] if each["arm"] == "policy")
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["sample_ratio_holds"] == 1
    assert figures["policy_cost"] == policy["cost"]["value"]
    for name, part in {"": "value", "_low": "low", "_high": "high"}.items():
        assert figures[f"policy_gain{name}"] == policy["value"][part]
    # At the price 0.003 the policy gives level 1, but for its draws.
    truth = 0.95 * TRUTH[1] + 0.05 * TRUTH.mean() - TRUTH[0]
    each = len(mature) / 1500
    assert policy["value"]["low"] < truth * each < policy["value"]["high"]
    request = next(each for each in found["per_request"] if each["arm"] == "policy")
    assert request["value"]["low"] < truth < request["value"]["high"]
    assert found["per"] == "account"
    assert found["unlisted"] == len(set(rows["account_id"]) - set(past["account_id"]))
    assert found["sample_ratio"]["mismatch"] is False
    assert sum(found["sample_ratio"]["assigned"]["observed"].values()) == len(past)
    days = next(each for each in found["daily"] if each["arm"] == "policy")
    assert days["days"] == list(range(9))
    assert {each["segment"] for each in found["segments"]["policy"]["segments"]} == {"north", "south"}
    page = (tmp_path / "lift.md").read_text()
    assert "Value that would not have come anyway" in page
    assert "nan" not in page


def test_a_holdout_of_the_company_leaves_the_lift_of_a_campaign_unbiased(tmp_path: Path) -> None:
    """Held accounts respond half as often, since nobody else treats them: as a baseline they would double the lift."""
    out = Holdout(key="company", share=3000)
    campaign = replace(CAMPAIGN, holdout=out)
    rows = write_log(tmp_path / "log", campaign=campaign)
    (tmp_path / "campaign.json").write_text(json.dumps(campaign.to_dict()))
    everybody = pd.DataFrame({"account_id": [f"a{number}" for number in range(1500)]})
    everybody.to_parquet(tmp_path / "accounts.parquet")
    files = {name: tmp_path / name for name in ("log", "result", "page")} | {"campaign": tmp_path / "campaign.json"}
    found = run(LiftJob(**files, accounts=tmp_path / "accounts.parquet", mature_hours=0))
    held = out.holds(rows["account_id"].tolist())
    listed = everybody[~out.holds(everybody["account_id"].tolist())]
    listed = listed.assign(arm=CAMPAIGN.experiment.arm_of(listed["account_id"].tolist()))
    expected = lift(rows[~held], "holdout", listed)
    for one, other in zip(sorted(found.lifts, key=lambda each: each.arm), expected, strict=True):
        assert (one.arm, one.requests) == (other.arm, other.requests)
        assert (one.value.value, one.value.error) == pytest.approx((other.value.value, other.value.error))
    policy = next(each for each in found.lifts if each.arm == "policy")
    truth = (0.95 * TRUTH[1] + 0.05 * TRUTH.mean() - TRUTH[0]) * len(rows) / 1500
    assert policy.value.low < truth < policy.value.high
    assert found.unlisted == 0
    assert not found.mismatch
    # Neither training nor an off-policy estimate has them, whatever the campaign's file says by then.
    log, offers = read_log(tmp_path / "log"), pd.DataFrame({"side": "customer", "face_value": (0, 50, 100)})
    offers["offer_id"] = ["free", "low", "high"]
    for now in (campaign, CAMPAIGN):
        taken = harvest(log, now, offers, 0.0)
        assert taken.held == held.sum()
        assert not out.holds(taken.exposure["account_id"].tolist()).any()
    assert not out.holds(served_requests(log, campaign)["account_id"].tolist()).any()
    (tmp_path / "campaign.json").write_text(json.dumps(replace(campaign, holdout=replace(out, key="other")).to_dict()))
    with pytest.raises(InvalidTable, match="the key and the share that were served"):
        run(LiftJob(**files, accounts=tmp_path / "accounts.parquet", mature_hours=0))


def names(number: int, letter: str) -> list[str]:
    return [f"{letter}{each}" for each in range(number)]


@pytest.mark.parametrize("unit", ["account", "partner", "hour", "cluster"])
def test_the_unit_of_the_experiment_is_that_of_the_analysis(tmp_path: Path, unit: Unit) -> None:
    rows = write_log(tmp_path / "log", unit)
    test = replace(CAMPAIGN, experiment=replace(CAMPAIGN.experiment, unit=unit))
    (tmp_path / "campaign.json").write_text(json.dumps(test.to_dict()))
    GROUPS.save(tmp_path / "groups.npy")
    files = {"log": tmp_path / "log", "campaign": tmp_path / "campaign.json", "page": tmp_path / "b.md"}
    listed = pd.DataFrame({"account_id": names(200, "m") if unit == "partner" else names(1500, "a")})
    listed.to_parquet(tmp_path / "accounts.parquet")
    more = {"result": tmp_path / "a.json", "accounts": tmp_path / "accounts.parquet"}
    found = run(LiftJob(**files, **more, mature_hours=0))
    rows = rows.assign(hour=np.floor(rows["hour"]).astype(int), alone=np.arange(len(rows)))
    if unit == "partner":
        rows = rows[rows["partner_id"] != ""]
    rows["group"] = GROUPS.units(rows["account_id"].tolist())
    rows["other"] = rows["account_id"] if unit == "partner" else rows["partner_id"]
    rows.loc[rows["other"] == "", "other"] = "account " + rows["account_id"]
    columns = {
        "account": Columns(partner="other"),
        "partner": Columns(unit="partner_id", partner="other"),
        "hour": Columns(unit="hour"),
        "cluster": Columns(unit="group"),
    }[unit]
    test_of, number = replace(CAMPAIGN.experiment, unit=unit), {"partner": 200, "hour": 240}.get(unit, 1500)
    assigned = pd.DataFrame({"account_id": names(number, "m" if unit == "partner" else "a")})
    assigned["partner_id"], assigned["hour"] = assigned["account_id"], np.arange(number)
    assigned["group"] = GROUPS.units(assigned["account_id"].tolist())
    units = [f"{START + timedelta(hours=each):{HOUR}}" for each in range(number)]
    assigned["arm"] = test_of.arm_of(units if unit == "hour" else assigned[columns.unit].tolist())
    expected = lift(rows, "holdout", assigned, columns=columns)
    for one, other in zip(sorted(found.lifts, key=lambda each: each.arm), expected, strict=True):
        assert (one.arm, one.units, one.requests) == (other.arm, other.units, other.requests)
        assert (one.value.value, one.value.error) == pytest.approx((other.value.value, other.value.error))
    assert not found.mismatch
    content, page = json.loads((tmp_path / "a.json").read_text()), (tmp_path / "b.md").read_text()
    # Requests without a partner have no arm where partners are assigned.
    assert content.get("without_unit", 0) == 6000 - len(rows) == (643 if unit == "partner" else 0)
    assert ("643 requests are left out, because they name no partner" in page) == (unit == "partner")


def test_partners_are_no_units_of_a_log_without_them(tmp_path: Path) -> None:
    write_log(tmp_path / "log")
    test = replace(CAMPAIGN, experiment=replace(CAMPAIGN.experiment, unit="partner"))
    (tmp_path / "campaign.json").write_text(json.dumps(test.to_dict()))
    files = {"log": tmp_path / "log", "campaign": tmp_path / "campaign.json", "page": tmp_path / "b.md"}
    with pytest.raises(InvalidInput, match="log: no request names a partner, which the experiment assigns"):
        run(LiftJob(**files, result=tmp_path / "a.json", mature_hours=0))


def test_with_a_graph_the_page_says_what_changes_if_everybody_is_in_an_arm(tmp_path: Path, campaign_file: Path) -> None:
    write_log(tmp_path / "log")
    nodes = 1500 + 300
    customers = np.arange(nodes) < 1500
    tie = np.stack([np.repeat(np.arange(1500), 3), 1500 + np.random.default_rng(0).integers(0, 300, 4500)])
    GraphSnapshot(
        account_id=np.array([f"a{each}" for each in range(1500)] + [f"m{each}" for each in range(300)]),
        is_side=np.stack([customers, ~customers]),
        names={"customer": (), "merchant": ()},
        features={side: np.zeros((nodes, 0), dtype=np.float32) for side in ("customer", "merchant")},
        edge_index=tie,
        edge_names=(),
        edge_features=np.zeros((4500, 0), dtype=np.float32),
        at=datetime(2026, 2, 1, tzinfo=UTC),
    ).save(tmp_path / "snapshot-000")
    files = {"log": tmp_path / "log", "campaign": campaign_file, "result": tmp_path / "a.json", "page": tmp_path / "a"}
    found = run(LiftJob(**files, graph=tmp_path / "snapshot-000", mature_hours=0))
    policy = next(
        each for each in json.loads((tmp_path / "a.json").read_text())["everybody"] if each["arm"] == "policy"
    )
    lifted = next(each for each in found.lifts if each.arm == "policy")
    # No partner matters in this log: everybody's effect is the lift, with a wider interval.
    assert policy["value"]["low"] < lifted.value.value < policy["value"]["high"]
    assert policy["value"]["error"] > lifted.value.error
    assert policy["accounts"] > lifted.units
    assert "## If everybody were in an arm" in (tmp_path / "a").read_text()


def test_with_a_graph_the_influence_on_partners_is_written_for_a_campaign_to_name(tmp_path: Path) -> None:
    """400 merchants are given 40 or nothing; each minor unit moves their customers by 0.005 responses."""
    random = np.random.default_rng(0)
    names = [f"a{number}" for number in range(2400)]
    tie = np.stack([np.repeat(np.arange(2000), 3), 2000 + random.integers(0, 400, 6000)])
    arm = CAMPAIGN.experiment.arm_of(names)
    given = np.where(arm == "policy", 40, 0)
    pull = np.bincount(tie[0], given[tie[1]]) / 3
    chance = np.append(0.2 + 0.1 * (arm[:2000] == "policy") + 0.005 * pull, np.full(400, 0.5))
    sides = {"customer": Terms(levels=(0, 40)), "merchant": Terms(levels=(0, 40), cost_basis="on_grant")}
    campaign = replace(CAMPAIGN, sides=sides)
    write_segments(
        tmp_path / "log", names, (given > 0).astype(int).tolist(), random.random(2400) < chance, (0, 40), [0.5, 0.5]
    )
    for kind, column in (("decisions", "arm"), ("outcomes", "")):
        path = next((tmp_path / "log").glob(f"{kind}-*"))
        table = pq.read_table(path)
        at = [int(each[1:]) for each in table["request_id"].to_pylist()]
        own = {"side": ["customer" if row < 2000 else "merchant" for row in at]}
        for name, values in (own | ({column: [arm[row] for row in at]} if column else {})).items():
            place = table.schema.get_field_index(name)
            table = table.set_column(place, table.schema.field(name), pa.array(values, table.schema.field(name).type))
        pq.write_table(table, path)
    customers = np.arange(2400) < 2000
    graph = GraphSnapshot(
        account_id=np.array(names),
        is_side=np.stack([customers, ~customers]),
        names={"customer": (), "merchant": ()},
        features={side: np.zeros((2400, 0), dtype=np.float32) for side in ("customer", "merchant")},
        edge_index=tie,
        edge_names=(),
        edge_features=np.zeros((6000, 0), dtype=np.float32),
        at=datetime(2026, 2, 1, tzinfo=UTC),
    )
    graph.save(tmp_path / "snapshot-000")
    (tmp_path / "campaign.json").write_text(json.dumps(campaign.to_dict()))
    pd.DataFrame({"account_id": names}).to_parquet(tmp_path / "accounts.parquet")
    files = {name: tmp_path / name for name in ("log", "result", "page")} | {"campaign": tmp_path / "campaign.json"}
    job = LiftJob(
        **files,
        accounts=tmp_path / "accounts.parquet",
        graph=tmp_path / "snapshot-000",
        influence=tmp_path / "influence.parquet",
        mature_hours=0,
    )
    run(job)
    found = json.loads((tmp_path / "result").read_text())["influence"]
    assert found["merchant"]["counts"]
    assert found["merchant"]["effect"]["low"] < 0.005 < found["merchant"]["effect"]["high"]
    assert not found.get("customer", {"counts": False})["counts"]
    assert "## If partners are given more" in (tmp_path / "page").read_text()
    table = read_influence(tmp_path / "influence.parquet", "merchant")
    effect, half = found["merchant"]["effect"]["value"], found["merchant"]["effect"]["value"]
    half -= found["merchant"]["effect"]["low"]
    reach = np.bincount(tie[1], minlength=2400) / 3
    expected = (effect - half**2 / effect) * reach[2000:]
    value = [each or 0.0 for each in table.read(INFLUENCE, names[2000:])]
    np.testing.assert_allclose(value, expected)
    assert table.read(INFLUENCE, names[:2]) == [None, None]
    with pytest.raises(Conflict, match="another name"):
        run(job)
    with pytest.raises(InvalidInput, match="needs the graph"):
        run(replace(job, graph=None))


def test_a_holdout_without_its_rows_raises_the_alarm_and_is_written_all_the_same(
    tmp_path: Path, campaign_file: Path
) -> None:
    rows = write_log(tmp_path / "log")
    kept = set(rows.loc[rows["arm"] != "holdout", "account_id"])
    for path in (tmp_path / "log").glob("decisions-*"):
        table = pq.read_table(path)
        keep = [name in kept or name[-1] < "6" for name in table.column("account_id").to_pylist()]
        table = table.filter(pa.array(keep))
        path.unlink()
        pq.write_table(table, Segment.named(tmp_path / "log", "decisions", 1, table.num_rows).path)
    job = LiftJob(
        log=tmp_path / "log", campaign=campaign_file, result=tmp_path / "a.json", page=tmp_path / "a.md", mature_hours=0
    )
    with pytest.raises(NotCertified, match="sample-ratio mismatch"):
        run(job)
    assert json.loads((tmp_path / "a.json").read_text())["sample_ratio"]["mismatch"] is True
    assert "Do not read the lift" in (tmp_path / "a.md").read_text()
    # With the list of the accounts an arm that asks less may be an effect: it is a warning.
    pd.DataFrame({"account_id": names(1500, "a")}).to_parquet(tmp_path / "accounts.parquet")
    run(replace(job, accounts=tmp_path / "accounts.parquet"))
    ratio = json.loads((tmp_path / "a.json").read_text())["sample_ratio"]
    assert (ratio["mismatch"], ratio["asked"]["differs"]) == (False, True)
    assert "either the incentive brings units" in (tmp_path / "a.md").read_text().lower()


@pytest.mark.parametrize("lacks", ["money", "responses", "units", "days"])
def test_a_figure_that_does_not_exist_has_its_reason_in_words(tmp_path: Path, campaign_file: Path, lacks: str) -> None:
    rows = write_log(tmp_path / "log")
    names = {f"a{each}" for each in range(1500)}
    if lacks == "units":
        names = {rows.loc[rows["arm"] == arm, "account_id"].iloc[0] for arm in ("holdout", "policy", "explore")}
    for path in (tmp_path / "log").glob("*.parquet"):
        table = pq.read_table(path)
        if "outcomes" in path.name:
            # A response to the level of nothing costs nothing.
            table = table.set_column(table.column_names.index("cost"), "cost", pa.array([0] * len(table), pa.int64()))
            table = table.slice(0, 0 if lacks == "responses" else None)
        else:
            table = table.filter(pa.array([name in names for name in table.column("account_id").to_pylist()]))
            table = table.slice(0, 60 if lacks == "days" else None)
        kept = set(table.column("request_id").to_pylist())
        path.unlink()
        if kept:
            pq.write_table(table, Segment.named(tmp_path / "log", path.name.split("-")[0], 1, len(table)).path)
    pd.DataFrame({"account_id": sorted(names), "region": "north"}).to_parquet(tmp_path / "features.parquet")
    files = {"log": tmp_path / "log", "campaign": campaign_file, "result": tmp_path / "a", "page": tmp_path / "b"}
    run(LiftJob(**files, features=tmp_path / "features.parquet", segment="region", mature_hours=0))
    page = (tmp_path / "b").read_text()
    assert not re.search(r"\b(nan|inf)\b", page)
    assert json.loads((tmp_path / "a").read_text())["lifts"]
    assert "not known: fewer than two have an error" in page
    words = {
        "money": "Incremental value per $1: not known: no additional money was paid.",
        "responses": "`holdout` has no value.",
        "units": "[no interval: an arm has too few units]",
        "days": "A day without figures has an arm of fewer than 30 units so far.",
    }
    assert words[lacks] in page


def test_without_a_list_the_shares_stand_for_it(tmp_path: Path, campaign_file: Path) -> None:
    rows = write_log(tmp_path / "log")
    files = {
        "log": tmp_path / "log",
        "campaign": campaign_file,
        "result": tmp_path / "a.json",
        "page": tmp_path / "a.md",
    }
    found = run(LiftJob(**files, mature_hours=0))
    asked = rows["account_id"].nunique()
    sums = rows.groupby("arm")["value"].sum()
    policy = next(each for each in found.lifts if each.arm == "policy")
    assert policy.value.value == pytest.approx((sums["policy"] / 0.5 - sums["holdout"] / 0.25) / asked)
    assert json.loads((tmp_path / "a.json").read_text())["per"] == "account that asked"
    assert "There is no list of the accounts" in (tmp_path / "a.md").read_text()


def test_the_accounts_are_those_of_the_model_in_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "models" / "v1").mkdir(parents=True)
    (tmp_path / "models" / "v1" / "model.json").write_text(json.dumps({"model_version": "v1"}))
    (tmp_path / "model").symlink_to(Path("models") / "v1", target_is_directory=True)
    for side, listed in (("customer", ["a", "b"]), ("merchant", ["m"])):
        (tmp_path / "population" / "v1" / side).mkdir(parents=True)
        pq.write_table(pa.table({"account_id": listed}), tmp_path / "population" / "v1" / side / "account_id.parquet")
    for place in (tmp_path, tmp_path / "campaign.json"):
        found = accounts_of(None, place, ["customer"], partners=False, features=None)
        assert found is not None
        assert found["account_id"].tolist() == ["a", "b"]
    met = accounts_of(None, tmp_path, ["customer"], partners=True, features=None)
    assert met is not None
    assert met["account_id"].tolist() == ["m"]
    assert accounts_of(None, tmp_path / "models" / "v1", ["customer"], partners=False, features=None) is None


def test_what_the_job_cannot_do_is_refused_by_name(tmp_path: Path, campaign_file: Path) -> None:
    write_log(tmp_path / "log")
    values = {"log": tmp_path / "log", "campaign": campaign_file, "result": tmp_path / "a", "page": tmp_path / "b"}
    with pytest.raises(InvalidInput, match="mature_hours: no decision is"):
        run(LiftJob(**values, mature_hours=1000))
    with pytest.raises(InvalidInput, match="segment: needs the file"):
        run(LiftJob(**values, segment="region", mature_hours=0))
    pd.DataFrame({"account_id": ["a1", "a1"]}).to_parquet(tmp_path / "twice.parquet")
    with pytest.raises(InvalidInput, match="one row for each account"):
        run(LiftJob(**values, features=tmp_path / "twice.parquet", mature_hours=0))
    without = CAMPAIGN.to_dict()
    del without["experiment"]
    campaign_file.write_text(json.dumps(without))
    with pytest.raises(InvalidInput, match="no experiment"):
        run(LiftJob(**values))
    assert not (tmp_path / "a").exists()


def test_the_plan_of_the_command_is_that_of_the_library_and_goes_into_the_campaign_file(
    tmp_path: Path, campaign_file: Path
) -> None:
    prior, precision = {"response": [0.1, 0.14, 0.16], "money": 6.0}, {"lift": 0.01, "curve": 0.02}
    flags = {"campaign": campaign_file, "accounts": 100_000, "salt": "trial", "result": tmp_path / "plan.json"}
    flags |= {"page": tmp_path / "plan.md", "prior": json.dumps(prior), "precision": json.dumps(precision)}
    assert command.main(["plan", *(text for name, value in flags.items() for text in (f"--{name}", str(value)))]) == 0
    found = json.loads((tmp_path / "plan.json").read_text())
    expected = plan(CAMPAIGN.terms("customer"), 100_000, Prior(**prior), Precision(**precision))  # type: ignore[arg-type]
    assert found["shares"] == expected.shares
    assert found["half_widths"] == expected.half_widths
    campaign = CAMPAIGN.to_dict() | {"experiment": found["experiment"]}
    assert Campaign.from_dict(campaign).experiment == expected.experiment("trial")
    assert "| holdout |" in (tmp_path / "plan.md").read_text()
    flags["precision"] = json.dumps({"width": 1})
    assert command.main(["plan", *(text for name, value in flags.items() for text in (f"--{name}", str(value)))]) == 1


def test_second_outcomes_get_the_lift_that_a_value_would_have(tmp_path: Path, campaign_file: Path) -> None:
    write_log(tmp_path / "log")
    rows, dice = read_log(tmp_path / "log").decisions, np.random.default_rng(3)
    complaints = (dice.random(len(rows)) < np.where(rows["arm"] == "holdout", 0.05, 0.15)).astype(float)
    table = pd.DataFrame({"request_id": rows["request_id"], "x_complaints": complaints})
    # A request that the file lacks has none.
    table[complaints > 0].to_parquet(tmp_path / "outcomes.parquet")
    files = {"result": tmp_path / "lift.json", "page": tmp_path / "lift.md"}
    job = LiftJob(log=tmp_path / "log", campaign=campaign_file, mature_hours=0, **files)
    plain = run(job)
    assert "outcomes" not in json.loads(files["result"].read_text())
    job = replace(job, outcomes=tmp_path / "outcomes.parquet")
    assert [each.value.value for each in run(job).lifts] == [each.value.value for each in plain.lifts]
    found = json.loads(files["result"].read_text())["outcomes"]["x_complaints"]
    policy = next(each for each in found if each["arm"] == "policy")
    totals = rows.assign(x=complaints).groupby("arm").agg(total=("x", "sum"), units=("account_id", "nunique"))
    mean = totals["total"] / totals["units"]
    assert policy["value"]["value"] == pytest.approx(mean["policy"] - mean["holdout"], rel=0.1)
    assert policy["value"]["low"] < 0.1 * len(rows) / rows["account_id"].nunique() < policy["value"]["high"]
    assert "| x_complaints | policy |" in files["page"].read_text()

    # What really came stands beside the limits of the campaign, of a day the largest sum.
    budgets: list[dict[str, object]] = [
        {"name": "few", "limit": 30, "outcome": "x_complaints", "period": "day"},
        {"name": "rate", "limit": 0.2, "outcome": "x_complaints", "form": "per_account", "side": "customer"},
        {"name": "north", "limit": 80, "outcome": "x_complaints", "where": 'account.c_region == "north"'},
        {"name": "other", "limit": 7, "outcome": "x_returns"},
    ]
    north = dice.random(len(rows)) < 0.3
    for path in (tmp_path / "log").glob("decisions-*"):
        part = pq.read_table(path)
        place, groups = part.column_names.index("groups"), pa.array(np.where(north, "south,north", "").tolist())
        assert part.column("request_id").to_pylist() == rows["request_id"].tolist()
        pq.write_table(part.set_column(place, part.schema.field(place), groups), path)
    limited = json.loads(campaign_file.read_text()) | {"limits": {"budgets": budgets}}
    campaign_file.write_text(json.dumps(limited))
    run(job)
    days = rows.assign(x=complaints).groupby(rows["decided_at"].dt.date)["x"].sum()
    own = complaints[(rows["side"] == "customer").to_numpy()]
    page = files["page"].read_text()
    assert f"| few | x_complaints a day | {len(rows):,} | {days.max():.4g} | 30 |" in page
    assert f"| rate | x_complaints a request | {own.size:,} | {own.mean():.4g} | 0.2 |" in page
    assert f"| north | x_complaints a campaign | {north.sum():,} | {complaints[north].sum():.4g} | 80 |" in page
    assert "Limit other is left out: the second outcomes have no column `x_returns`." in page

    table.assign(request_id="other").to_parquet(tmp_path / "outcomes.parquet")
    with pytest.raises(InvalidInput, match="each once"):
        run(job)
    table.head(1).assign(request_id="other").to_parquet(tmp_path / "outcomes.parquet")
    with pytest.raises(InvalidInput, match="no request of the log"):
        run(job)
