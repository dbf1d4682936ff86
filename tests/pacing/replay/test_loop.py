"""The closed loop beside a frozen model, and the log of a replayed day."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np

from shadowprice.campaign import Side
from shadowprice.curves import Curves
from shadowprice.pacing.decision_log.served import exposure_and_outcome, read_log
from shadowprice.pacing.replay.compare import Setting
from shadowprice.pacing.replay.loop import CLOSED, FROZEN, ORACLE, run_loop
from shadowprice.pacing.replay.outcomes import NamedCurves
from shadowprice.pacing.replay.run import Replay
from shadowprice.pacing.replay.served_log import write_replay


def test_the_loop_takes_a_new_model_from_the_next_day_on_and_every_day_is_logged(
    make_setting: Callable[..., Setting], tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    first = make_setting(0, requests=1500)
    # A frozen model that knows nothing of who responds.
    shuffled: dict[Side, NamedCurves] = {
        side: NamedCurves(each.account_id, each.curves.take(rng.permutation(each.curves.accounts)))
        for side, each in first.outcomes.truth.items()
    }
    played: list[Replay] = []

    def setting(day: int) -> Setting:
        found = make_setting(0, requests=1500)
        campaign = replace(found.campaign, starts_at=found.campaign.starts_at + timedelta(days=day))
        renamed = replace(found.day, request_id=np.array([f"{day}-{name}" for name in found.day.request_id]))
        return replace(found, campaign=campaign, model=shuffled, day=renamed)

    def retrain(day: int, run: Replay) -> Mapping[Side, NamedCurves] | None:
        played.append(run)
        write_replay(tmp_path / "log", run, setting(day).campaign, shuffled, f"m{day}")
        return first.outcomes.truth if day == 0 else None

    days = list(run_loop(3, setting, retrain))
    assert [each.retrained for each in days] == [True, False, False]
    assert days[0].value[CLOSED] == days[0].value[FROZEN] < days[0].value[ORACLE]
    for each in days[1:]:
        assert each.value[CLOSED] == each.value[ORACLE] > each.value[FROZEN]
    assert all(spend <= each.budget for each in days for spend in each.spend.values())

    log = read_log(tmp_path / "log")
    outcomes = [run.outcomes for run in played]
    assert log.decisions["request_id"].tolist() == [str(name) for each in outcomes for name in each.request_id]
    assert log.outcomes["cost"].sum() == sum(each.cost.sum() for each in outcomes)
    assert log.decisions["model_version"].value_counts().to_dict() == {
        f"m{day}": len(each) for day, each in enumerate(outcomes)
    }
    span = log.decisions["decided_at"].max() - log.decisions["decided_at"].min()
    assert timedelta(hours=47) < span < timedelta(hours=48)
    exposure, outcome = exposure_and_outcome(log, setting(0).campaign)
    assert len(exposure) == len(outcome) == (log.decisions["level"] >= 0).sum()
    curves: Curves = shuffled["customer"].curves
    row = log.decisions[(log.decisions["side"] == "customer") & (log.decisions["level"] >= 0)].iloc[0]
    place = shuffled["customer"].account_id.tolist().index(row["account_id"])
    assert row["response"] == curves.response[row["level"], place]
