"""The page of the arms, over a decision log and the file that the job ``lift`` wrote of it."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from asking import Down, ask
from looking import LOOKS, browser, faults, show

from operations.lift import LiftJob, run
from serving.console.app import Console, create_app
from shadowprice.arms import Arm, Experiment, Holdout, treatment
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.pacing.decision_log.segments import SCHEMAS, Segment
from shadowprice.pacing.price_store import PriceStore

ROWS = 3000
ARMS = (Arm(name="holdout", kind="holdout", share=3000), Arm(name="policy", kind="policy", share=5000))
CAMPAIGN = Campaign(
    name="spring",
    sides={"customer": Terms(levels=(0, 100))},
    budget=Budget(limit=10**6),
    starts_at=datetime(2026, 3, 1, tzinfo=UTC),
    hours=240,
    experiment=Experiment(arms=ARMS, salt="spring"),
)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("arms") / "log"
    folder.mkdir()
    rng = np.random.default_rng(0)
    names = [f"a{row}" for row in range(ROWS)]
    treated = treatment(CAMPAIGN.experiment, names, 0.0)
    level = np.where(treated.held, 0, 1)
    hit = rng.random(ROWS) < np.where(level, 0.3, 0.2)
    at = [datetime(2026, 3, 1 + row * 5 // ROWS, 12, tzinfo=UTC) for row in range(ROWS)]
    decisions = {
        "request_id": [f"r{row}" for row in range(ROWS)],
        "account_id": names,
        "side": ["customer"] * ROWS,
        "arm": treated.arm.tolist(),
        "level": level.tolist(),
        "incentive": (100 * level).tolist(),
        "reason": ["holdout" if held else "optimal" for held in treated.held],
        "decided_at": at,
        "partner_id": [""] * ROWS,
    }
    outcomes = {
        "request_id": [f"r{row}" for row in range(ROWS)],
        "response": hit.astype(float).tolist(),
        "cost": (100 * level * hit).tolist(),
        "redeemed": hit.tolist(),
        "observed_at": at,
    }
    for kind, columns in (("decisions", decisions), ("outcomes", outcomes)):
        schema = SCHEMAS[kind]
        blank = {field.name: columns.get(field.name) or _blank(field.type) for field in schema}
        blank |= {"sequence": list(range(1, ROWS + 1))} if "sequence" in schema.names else {}
        table = pa.table({name: pa.array(values, schema.field(name).type) for name, values in blank.items()})
        pq.write_table(table, Segment.named(folder, kind, 1, ROWS).path)
    return folder


def _blank(kind: pa.DataType) -> list[object]:
    if pa.types.is_timestamp(kind):
        return [datetime(2026, 3, 1, tzinfo=UTC)] * ROWS
    if pa.types.is_boolean(kind):
        return [False] * ROWS
    if pa.types.is_list(kind):
        return [[]] * ROWS
    return [""] * ROWS if pa.types.is_string(kind) or pa.types.is_dictionary(kind) else [0] * ROWS


def page(log: Path, lift: Path, tmp_path: Path, campaign: Campaign = CAMPAIGN) -> httpx.Response:
    console = Console(campaign, Down(), PriceStore(tmp_path / "prices"), log=log, lift=lift)
    return ask(create_app(console), "/campaigns/spring/arms")


def test_the_page_has_the_sums_of_the_log_and_the_lift_of_the_job(log: Path, tmp_path: Path) -> None:
    (tmp_path / "campaign.json").write_text(json.dumps(CAMPAIGN.to_dict()))
    lift = tmp_path / "lift.json"
    text = page(log, lift, tmp_path, replace(CAMPAIGN, holdout=Holdout(key="company", share=500))).text
    assert "No lift of this window is written yet" in text
    assert re.search(r"company_holdout</th><td class=\"text\">no campaign treats it</td><td>5.0 %</td>", text)
    found = run(
        LiftJob(log=log, campaign=tmp_path / "campaign.json", result=lift, page=tmp_path / "a.md", mature_hours=1)
    )
    shown = unescape(page(log, lift, tmp_path).text)
    (policy,) = found.lifts
    assert f"<td>{policy.units:,}</td>" in shown
    assert f"{policy.value.value:.3g} [{policy.value.low:.3g}, {policy.value.high:.3g}]" in shown.replace("−", "-")
    (request,) = found.per_request
    assert f"{request.value.value:.3g} [{request.value.low:.3g}, {request.value.high:.3g}]" in shown.replace("−", "-")
    (daily,) = found.daily
    assert f"[{daily.value.low[-1]:.3g}, {daily.value.high[-1]:.3g}]" in shown.replace("−", "-")
    arms, requests = np.unique(CAMPAIGN.experiment.arm_of([f"a{row}" for row in range(ROWS)]), return_counts=True)
    for arm, count in zip(arms.tolist(), requests.tolist(), strict=True):
        assert re.search(rf'<th scope="row">{arm}</th>.*<td>{count:,}</td>', shown)
    assert "Do not read the lift" not in shown


def test_the_page_has_no_faults_in_a_browser(log: Path, tmp_path: Path, tool: Callable[[str], str]) -> None:
    (tmp_path / "campaign.json").write_text(json.dumps(CAMPAIGN.to_dict()))
    files = {"result": tmp_path / "lift.json", "page": tmp_path / "a.md"}
    run(LiftJob(log=log, campaign=tmp_path / "campaign.json", **files, mature_hours=1))
    text = page(log, tmp_path / "lift.json", tmp_path).text
    with browser(tool("chromium")) as opened:
        shown = opened.new_page()
        shown.set_content(text)
        for width, look in LOOKS:
            show(shown, width, look)
            assert faults(shown) == [], (width, look)


def test_a_damaged_lift_and_that_of_another_campaign_are_named(log: Path, tmp_path: Path) -> None:
    lift = tmp_path / "lift.json"
    lift.write_text("{")
    assert page(log, lift, tmp_path).status_code == 503
    keys = ("baseline", "lifts", "daily", "level", "per", "per_request", "mature", "requests", "mature_hours")
    keys += ("sample_ratio",)
    lift.write_text(json.dumps({"campaign": "summer"} | {key: [] for key in keys}))
    answer = page(log, lift, tmp_path)
    assert answer.status_code == 503
    assert "summer" in answer.text
    none = page(log, lift, tmp_path, replace(CAMPAIGN, experiment=None))
    assert none.status_code == 404
    assert "Arms and lift" not in none.text
