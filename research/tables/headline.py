"""Coverage of the headline's intervals: a new small world and a new day at each seed, whose truth is known."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from research.table import Primary, Rows, Summary, Table
from shadowprice.campaign import SIDES, Campaign, Side
from shadowprice.curves import Curves
from shadowprice.datasets import load
from shadowprice.datasets.truth import true_curves
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.pacing.forecast import Forecast, Profile
from shadowprice.pacing.pacers import make_pacer
from shadowprice.pacing.replay.compare import Setting, attainable, run_pacer
from shadowprice.pacing.replay.day import Accounts, draw_day
from shadowprice.pacing.replay.gains import compare, gains
from shadowprice.pacing.replay.outcomes import NamedCurves, OutcomeModel, Outcomes
from shadowprice.pacing.replay.policies import past_traffic
from shadowprice.tables import campaign_from_tables

HOURS, REQUESTS = 4, 600
"""Hours of a day, and its expected requests."""
COVERED, WIDTH = "covered, %", "width, % of the truth"
CORRECTED, ALONE = "wrong model, corrected by explored requests", "wrong model alone"


def a_day(seed: int, exploration: float = 0.0) -> Setting:
    """Return the day of a world of 750 accounts, which is decided with its true curves."""
    found = load("world", seed=seed, customers=600, merchants=150)
    tables = campaign_from_tables(found.tables)
    # Half of the exploring day's requests get a level by chance, which costs more than the best levels do.
    budget = replace(tables.budget, limit=(60 if exploration else 24) * REQUESTS)
    campaign = replace(tables, budget=budget, expected_requests=None, hours=HOURS, exploration=exploration)
    truth: dict[Side, NamedCurves] = {}
    assert found.truth is not None
    for side in SIDES:
        levels = np.asarray(campaign.terms(side).levels)
        accounts = found.tables.account
        names = accounts["account_id"][accounts["side"] == side].drop_duplicates()
        curve = true_curves(found.truth, side, names, levels.size).astype(np.float32)
        truth[side] = NamedCurves(names.to_numpy(dtype=str), Curves(levels, curve))
    forecast = Forecast.of(campaign, dict.fromkeys(SIDES, Profile(np.ones(24), 24 * REQUESTS / HOURS / 2)))
    who = {side: Accounts(each.account_id, np.ones(each.account_id.size)) for side, each in truth.items()}
    return Setting(
        campaign=campaign,
        day=draw_day(forecast.expected, who, seed=seed),
        outcomes=OutcomeModel(campaign, truth, seed=seed),
        model=truth,
        forecast=forecast,
        history=past_traffic(who, 400, seed),
    )


def run(seed: int, quick: bool) -> Rows:  # noqa: ARG001 - a day takes a tenth of a second
    setting = a_day(seed)
    played = run_pacer(setting, make_pacer("static")).outcomes
    found, judged = gains(setting, played), attainable(setting)
    lowest, flat = found["lowest"], found["flat"]
    value = _value(setting.campaign, played)
    equal = replace(setting.campaign.budget, limit=int(played.cost.sum()))
    best_flat = attainable(replace(setting, campaign=replace(setting.campaign, budget=equal))).flat
    rows = {
        "extra responses over the lowest level, by weight": _judged(lowest.whole.responses, judged.incremental(value)),
        "extra responses over the best flat incentive": _judged(flat.whole.responses, value - best_flat),
    }
    cheapest = 0.0
    for side in SIDES:
        mine = played.side == side
        response = setting.outcomes.curves(side, played.account_id[mine], played.at[mine]).response[0].astype(float)
        terms = setting.campaign.terms(side)
        cheapest += terms.levels[0] * float(response.sum() if terms.cost_basis == "on_response" else mine.sum())
        right = float(played.expected_response[mine].sum() - response.sum())
        rows[f"extra responses of {side}s"] = _judged(lowest.sides[side].responses, right)
    each = float(played.expected_cost.sum() - cheapest) / judged.incremental(value)
    rows["cost of one extra response"] = _judged(lowest.whole.cost_each, each)
    return rows | _of_a_wrong_model(seed)


def _of_a_wrong_model(seed: int) -> dict[str, Mapping[str, float]]:
    """Figures of a campaign whose truth is not known: outcomes, logged propensities, and curves that are wrong."""
    setting = a_day(seed, exploration=0.5)
    played = run_pacer(setting, make_pacer("static"))
    logged = played.outcomes
    right = attainable(setting).incremental(_value(setting.campaign, logged))
    factors = {side: np.linspace(2.5, 0.7, len(setting.campaign.terms(side).levels))[:, None] for side in SIDES}

    def curves(side: Side, mine: NDArray[np.bool_]) -> Curves:
        true = setting.model[side].of(logged.account_id[mine])
        return Curves(true.levels, (true.response * factors[side]).astype(np.float32))

    units = setting.outcomes.expected_units
    rows: dict[str, Mapping[str, float]] = {}
    for name, propensity in ((CORRECTED, played.answers.propensity), (ALONE, None)):
        found = compare(setting.campaign, logged, curves, units, propensity)
        rows[name] = _judged(found["lowest"].whole.responses, right)
    return rows


def _value(campaign: Campaign, played: Outcomes) -> float:
    weight = np.array([campaign.terms(side).weight for side in SIDES])
    return float(weight[(played.side == SIDES[1]).astype(int)] @ played.expected_response)


def _judged(found: Estimate, right: float) -> dict[str, float]:
    covered = found.low <= right <= found.high
    return {COVERED: 100.0 * covered, WIDTH: 100.0 * (found.high - found.low) / abs(right)}


def reading(found: Summary) -> str:
    shares = {row: found.cell(row, COVERED) for row in found.rows}
    own = [row for row in found.rows if row not in (CORRECTED, ALONE)]
    held = [row for row in own if shares[row].low <= 95 <= shares[row].high]
    missed = [row for row in own if row not in held]
    return (
        f"The 95 % intervals of {len(held)} of the {len(own)} figures of the headline have 95 % within the interval of "
        f"their coverage{'; not: ' + ', '.join(missed) if missed else ''}. Curves that are wrong by a factor of 0.7 to "
        f"2.5 cover in {shares[ALONE].value:.1f} % of days, and with logged propensities in "
        f"{shares[CORRECTED].value:.1f} %."
    )


TABLE = Table(
    title="Headline: coverage of its intervals",
    source="the figures of a run's report",
    data="`world` with 600 customers and 150 merchants, new at each seed; a day of 600 requests decided by the true "
    "curves; half the requests explore where the wrong model is judged; simulated",
    run=run,
    reading=reading,
    primary=Primary(COVERED, CORRECTED, ALONE, effect=10.0, spread=40.0),
    fewer_is_better=[WIDTH],
    seeds=200,
)
