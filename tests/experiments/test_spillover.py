"""Effect for everybody from a log and a graph: known truth, where the difference of the arms misses it."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from bipartite import CUSTOMERS, graph
from numpy.typing import NDArray

from shadowprice.arms import COMPANY, Arm, Experiment, Holdout
from shadowprice.errors import InvalidInput
from shadowprice.experiments.columns import Columns
from shadowprice.experiments.lifts import lift
from shadowprice.experiments.periods import Period, in_periods
from shadowprice.experiments.spillover import effects_for_all
from shadowprice.graphs.communities import communities
from shadowprice.graphs.snapshot import GraphSnapshot
from shadowprice.groups import Groups

OWN, PARTNERS = 0.2, 0.5
WHOLE = 3 * 0.9 * (OWN + PARTNERS)
"""Effect for everybody per account: nine of ten ask three times."""
ARMS = (
    Arm(name="holdout", kind="holdout", share=4000),
    Arm(name="policy", kind="policy", share=4000),
    Arm(name="explore", kind="explore", share=1000),
)


def served(
    known: GraphSnapshot,
    test: Experiment,
    groups: Groups | None,
    random: np.random.Generator,
    held: NDArray[np.bool_] | None = None,
) -> pd.DataFrame:
    """Three requests of nine customers of ten; the value moves with the own arm and, by a loop, with the merchants'."""
    names = known.account_id.tolist()
    arm = test.arm_of(groups.units(names) if groups else names)
    arm = arm if held is None else np.where(held, COMPANY, arm)
    partners: dict[int, list[bool]] = {}
    for customer, merchant in known.edge_index.T.tolist():
        partners.setdefault(customer, []).append(arm[merchant] == "policy")
    rows = []
    for customer in range(CUSTOMERS):
        mean = 1 + OWN * (arm[customer] == "policy") + PARTNERS * float(np.mean(partners[customer]))
        rows += [
            {"account_id": names[customer], "side": "customer", "arm": arm[customer], "value": value, "cost": 7}
            for value in random.normal(mean, 0.3, 3 if customer % 10 else 0)
        ]
    return pd.DataFrame(rows).assign(period=0, day=0)


def once(test: Experiment) -> tuple[Period, ...]:
    return (Period(0, test, 0, 0, 1),)


@pytest.mark.parametrize(("unit", "share"), [("account", 0), ("cluster", 0), ("account", 2000)])
def test_it_covers_the_effect_for_everybody(unit: str, share: int) -> None:
    """Also where a share of all accounts is held out of every arm."""
    covered = naive = 0
    for seed in range(16):
        random = np.random.default_rng(seed)
        known = graph(random)
        groups = None
        if unit == "cluster":
            groups = Groups.of(known.account_id.tolist(), communities(known.edge_index, known.nodes, 5, seed=seed))
        test = Experiment(arms=ARMS, salt=f"salt-{seed}", unit=unit)  # type: ignore[arg-type]
        names = known.account_id.tolist()
        held = Holdout(key=f"key-{seed}", share=share).holds(names) if share else None
        rows = served(known, test, groups, random, held)
        rows = rows[rows["arm"] != COMPANY]
        whom = {"baseline": "holdout", "groups": groups, "held": held}
        found = {each.arm: each for each in effects_for_all(rows, once(test), known, **whom)}
        covered += found["policy"].value.low <= WHOLE <= found["policy"].value.high
        assert abs(found["policy"].cost.value) < 4 * found["policy"].cost.error
        arms = test.arm_of(groups.units(names) if groups else names)
        arms = (arms if held is None else np.where(held, COMPANY, arms))[:CUSTOMERS]
        assert found["policy"].accounts == int(np.isin(arms, ["policy", "holdout"]).sum())
        assigned = pd.DataFrame({"account_id": known.account_id[:CUSTOMERS], "arm": arms})
        plain = lift(rows, "holdout", assigned, arms=["policy"])[0].value
        naive += plain.low <= WHOLE <= plain.high
    # 95 % of 16 are 15; 12 or fewer have a probability below 1 %.
    assert covered >= 13
    if unit == "account":
        assert naive == 0


def test_accounts_that_the_graph_does_not_know_are_left_out_and_other_units_refused() -> None:
    random = np.random.default_rng(0)
    known = graph(random)
    test = Experiment(arms=ARMS, salt="s")
    rows = served(known, test, None, random)
    strangers = rows.assign(account_id="stranger-" + rows["account_id"], value=1e9)
    alone, both = (
        effects_for_all(each, once(test), known, baseline="holdout") for each in (rows, pd.concat([rows, strangers]))
    )
    assert alone == both
    with pytest.raises(InvalidInput, match=r"experiment\.unit"):
        effects_for_all(rows, once(Experiment(arms=ARMS, salt="s", unit="hour")), known, baseline="holdout")


def test_periods_of_other_shares_are_added() -> None:
    random = np.random.default_rng(1)
    known, before = graph(random), Experiment(arms=(ARMS[0], replace(ARMS[1], share=1000)), salt="s")
    after = before.raised("policy", 5000)
    parts = [served(known, each, None, random).assign(day=day, cost=day) for day, each in enumerate((before, after))]
    rows, periods = in_periods(pd.concat(parts, ignore_index=True), after, Columns())
    (found,) = effects_for_all(rows, periods, known, baseline="holdout")
    each = [effects_for_all(rows, [period], known, baseline="holdout")[0] for period in periods]
    assert found.value.value == pytest.approx(sum(one.value.value for one in each))
    assert abs(found.value.value - 2 * WHOLE) < 4 * found.value.error
    assert found.accounts == each[1].accounts > each[0].accounts
