"""Decision logs that tests of jobs read."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from shadowprice.arms import Arm, Experiment, Unit, treatment, units_of
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.curves import Curves
from shadowprice.groups import Groups
from shadowprice.limits.coverage import SideRequests
from shadowprice.pacing.decision_log.records import Decision, OutcomeRow
from shadowprice.pacing.decision_log.segments import SCHEMAS, Segment
from shadowprice.policy import Policy

START = datetime(2026, 3, 1, tzinfo=UTC)
ARMS = (
    Arm(name="holdout", kind="holdout", share=2500),
    Arm(name="policy", kind="policy", share=5000),
    Arm(name="explore", kind="explore", share=1000),
)
CAMPAIGN = Campaign(
    name="spring",
    sides={"customer": Terms(levels=(0, 50, 100))},
    budget=Budget(limit=10**6),
    starts_at=START,
    hours=240,
    exploration=0.05,
    experiment=Experiment(arms=ARMS, salt="spring"),
)
TRUTH = np.array([0.2, 0.3, 0.36])
GROUPS = Groups.of([f"a{each}" for each in range(1400)], np.arange(1400) // 20)
"""Groups of twenty accounts; the last hundred accounts are in none."""
RECORDED = timedelta(seconds=2)
"""Time between a decision and its record in the ledger."""


def write_log(
    folder: Path, unit: Unit | None = None, campaign: Campaign = CAMPAIGN, seed: int = 100, early: float = 0.0
) -> pd.DataFrame:
    """Decide 6,000 requests of ten days by arm, draw outcomes, and write the segments; return the rows by hand.

    With a unit nine requests of ten name a partner, and the ledger records each a little after its decision. Accounts
    in the holdout of the company respond half as often: no other campaign treats them. The services have the holdout
    after ``early`` hours.
    """
    tables, rows = _drawn(json.dumps(campaign.to_dict()), unit, seed, early)
    folder.mkdir()
    for kind, table in tables.items():
        pq.write_table(table, Segment.named(folder, kind, 1, table.num_rows).path)  # type: ignore[arg-type]
    return rows.copy()


@cache
def _drawn(text: str, unit: Unit | None, seed: int, early: float) -> tuple[dict[str, pa.Table], pd.DataFrame]:
    """Return the tables of a log and its rows by hand; many tests of a file write the same log."""
    campaign = Campaign.from_dict(json.loads(text))
    rng = np.random.default_rng(seed)
    accounts = np.array([f"a{each}" for each in rng.integers(0, 1500, 6000)])
    ids = [f"r{row}" for row in range(accounts.size)]
    at = np.sort(rng.uniform(0, 240, accounts.size))
    response = np.repeat(TRUTH[:, None], accounts.size, axis=1)
    named = rng.random(accounts.size) < 0.9 if unit else np.zeros(accounts.size, dtype=bool)
    partners = [f"m{int(name[1:]) * 7 % 200}" if has else "" for name, has in zip(accounts, named, strict=True)]
    test = campaign.experiment and replace(campaign.experiment, unit=unit or "account")
    held = np.zeros(at.size, dtype=bool) if campaign.holdout is None else campaign.holdout.holds(accounts.tolist())
    times = [START + timedelta(hours=hour) for hour in at.tolist()]
    units = units_of(test, accounts.tolist(), partners, times, GROUPS)
    treated = treatment(test, units, campaign.exploration, held & (at >= early))
    policy = Policy(campaign, campaign.coverage(), [0.003], 0.5)
    asked = policy.eligible(SideRequests("customer", accounts.tolist(), partners, {}))
    answer = policy.answer(asked, Curves(np.array((0, 50, 100)), response), ids, treated)
    made, reasons = answer.decision, answer.reasons
    shares = made.policy.propensities().T.tolist()
    redeemed = rng.random(accounts.size) < TRUTH[made.level] * np.where(held, 0.5, 1.0)
    decisions, outcomes, rows = [], [], []
    for row, (name, level) in enumerate(zip(accounts.tolist(), made.level.tolist(), strict=True)):
        decided = times[row] + (RECORDED if unit else timedelta())
        decisions.append(
            Decision(
                request_id=ids[row],
                account_id=name,
                side="customer",
                level=level,
                incentive=(0, 50, 100)[level],
                response=float(TRUTH[level]),
                expected_cost=0.0,
                propensity=float(made.propensity[row]),
                propensities=tuple(shares[row]),
                reason=str(reasons[row]),
                model_version="m",
                price_version=1,
                features_at=None,
                decided_at=round(decided.timestamp() * 1e6),
                arm=str(treated.arm[row]),
                partner_id=partners[row],
            )._asdict()
        )
        if redeemed[row]:
            when = round(decided.timestamp() * 1e6) + 1
            paid = (0, 50, 100)[level]
            outcomes.append(vars(OutcomeRow(ids[row], "customer", 1.0, paid, False, when, when)))
        paid = (0, 50, 100)[level] * redeemed[row]
        rows.append((name, partners[row], str(treated.arm[row]), float(redeemed[row]), paid, at[row]))
    both = {"decisions": decisions, "outcomes": outcomes}
    tables = {kind: pa.Table.from_pylist(records, schema=SCHEMAS[kind]) for kind, records in both.items()}  # type: ignore[index]
    return tables, pd.DataFrame(rows, columns=["account_id", "partner_id", "arm", "value", "cost", "hour"])


def write_segments(
    folder: Path, accounts: list[str], level: list[int], redeemed: np.ndarray, levels: tuple[int, ...], p: list[float]
) -> None:
    """Write a log of decisions an hour long, with outcomes a day later."""
    decisions, outcomes = [], []
    for row, (name, at) in enumerate(zip(accounts, level, strict=True)):
        when = round((START + timedelta(seconds=row)).timestamp() * 1e6)
        paid = levels[at]
        made = Decision(
            f"r{row}", name, "customer", at, paid, 0.0, 0.0, p[at], tuple(p), "explored", "m1", 1, None, when
        )
        decisions.append(made._asdict())
        if redeemed[row]:
            later = when + 86_400_000_000
            outcomes.append(vars(OutcomeRow(f"r{row}", "customer", 1.0, paid, False, later, later)))
    folder.mkdir()
    for kind, records in (("decisions", decisions), ("outcomes", outcomes)):
        table = pa.Table.from_pylist(records, schema=SCHEMAS[kind])  # type: ignore[index]
        pq.write_table(table, Segment.named(folder, kind, 1, len(records)).path)  # type: ignore[arg-type]
