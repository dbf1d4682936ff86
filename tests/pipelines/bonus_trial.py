"""Files of a user's bonus trial with its mapping, and a workspace that serves the flat policy learned from it."""

from pathlib import Path

from benchmarks.trials import TrialFiles, draw
from operations.common.job import run_here
from operations.featurize import FeaturizeJob
from operations.measure import MeasureJob
from operations.prepare import PrepareJob
from operations.publish import PublishJob
from operations.register import RegisterJob
from operations.solve import SolveJob
from operations.train import TrainJob

MAPPING = """
currency: EUR
timezone: UTC
sources:
  people: {{file: people.csv, delimiter: ","}}
  trial: {{file: offers.csv, delimiter: ","}}
campaign:
  campaign_id: bonus
  starts_at: 2025-05-12
  hours: 24
  budget_name: bonuses
  budget_form: total
  budget_limit: {budget}
  cost_basis_customer: on_response
  expected_requests: {requests}
tables:
  account:
    from: people
    columns:
      account_id: person_id
      snapshot_ts: {{constant: 2025-03-03}}
    features:
      numbers: [age, weeks_of_benefit]
      texts: [region, sex]
  exposure:
    from: trial
    columns:
      account_id: person_id
      request_id: {{row: R}}
      decided_at: interview
      face_value: bonus
      propensity: {{constant: 0.25}}
      redeemed: {{column: found_work, values: {{yes: 1, no: 0}}}}
      observed_at: {{column: interview, plus_days: 3}}
"""
BUDGET, REQUESTS = 7200, 60
"""Budget of a day in euros, and requests expected in it."""


def write_trial(folder: Path, *, accounts: int, effect: float, seed: int = 1) -> TrialFiles:
    """Write people.csv, offers.csv and mapping.yaml."""
    found = draw("bonus", seed=seed, accounts=accounts, effect=effect)
    found.offers["bonus"] = found.offers["bonus"].str.replace("$", "")
    found.write(folder)
    (folder / "mapping.yaml").write_text(MAPPING.format(budget=BUDGET, requests=REQUESTS))
    return found


def learned_flat(folder: Path, *, accounts: int, effect: float) -> Path:
    """Return a workspace with the flat policy of a trial, registered and priced, made in this process."""
    write_trial(folder / "files", accounts=accounts, effect=effect)
    tables, training, workspace, model = (folder / name for name in ("tables", "training", "run", "bundle"))
    run_here(PrepareJob(tables=tables, dataset="mapping", data=str(folder / "files" / "mapping.yaml")))
    run_here(FeaturizeJob(tables=tables, training=training, workspace=workspace, campaign_fields={"policy": "flat"}))
    run_here(TrainJob(training=training, model=model, workspace=workspace, workers=0))
    run_here(RegisterJob(model=model, workspace=workspace))
    state, price = folder / "state.json", folder / "price"
    run_here(MeasureJob(state=state, workspace=workspace))
    run_here(SolveJob(price=price, workspace=workspace, state=state))
    run_here(PublishJob(price=price, workspace=workspace))
    return workspace
