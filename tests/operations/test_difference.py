"""A change of terms against fresh solves of both campaigns."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from asked import make_workspace
from scipy import sparse
from scipy.optimize import linprog

import cli.main as command
from operations.common.workspace import CAMPAIGN, MODEL
from operations.questions.difference import difference, flatten
from operations.questions.question import open_what_if
from shadowprice.campaign import Campaign
from shadowprice.errors import InvalidInput, NotFound
from shadowprice.limits import Limits
from shadowprice.pacing.history import Traffic
from shadowprice.pacing.questions import Change
from shadowprice.responses.layers.heads import curves_of, load_heads, save_heads


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_workspace(tmp_path_factory.mktemp("workspace"))


def changed(run: Path, **fields: Any) -> Campaign:
    content = json.loads((run / CAMPAIGN).read_text())
    for name, value in fields.items():
        place = content
        *path, last = name.split("__")
        for part in path:
            place = place[part]
        place[last] = value
    return Campaign.from_dict(content)


DEAREST = {"name": "no-dearest", "side": "customer", "expression": "offer.incentive > 100"}
CAP = {"name": "few", "per": "account", "count": 1}


def test_each_figure_is_that_of_a_fresh_question(run: Path) -> None:
    after = changed(run, budget__limit=120_000, rules=[DEAREST], sides__merchant__weight=0.5, limits={"caps": [CAP]})
    found = difference(run, after, rows=500)
    assert [change.name for change in found.changes] == [
        "sides.merchant.weight", "budget.limit", "limits.caps.few", "rules.no-dearest"
    ]  # fmt: skip

    def fresh(campaign: Campaign) -> float:
        return open_what_if(run, rows=500, campaign=campaign).solver.ask().value.value

    own = changed(run)
    assert found.before.value.value == pytest.approx(fresh(own), rel=1e-9)
    assert found.after.value.value == pytest.approx(fresh(after), rel=1e-9)
    alone = {change.name: change.answer.value.value for change in found.changes}
    assert alone["budget.limit"] == pytest.approx(fresh(changed(run, budget__limit=120_000)), rel=1e-9)
    assert alone["rules.no-dearest"] == pytest.approx(fresh(changed(run, rules=[DEAREST])), rel=1e-9)
    without = {change.name: change.answer.value.value for change in found.prices}
    free = changed(run, budget__limit=120_000, sides__merchant__weight=0.5, limits={"caps": [CAP]})
    assert without["rules.no-dearest"] == pytest.approx(fresh(free), rel=1e-9)
    assert without["rules.no-dearest"] > found.after.value.value, "a rule that binds costs value"


def test_less_money_gives_nobody_more_and_fewer_levels_are_the_question_of_what_if(run: Path) -> None:
    found = difference(run, changed(run, budget__limit=60_000), rows=0)
    assert all(side.more == 0 and side.less > 0 for side in found.sides.values())
    assert sum(side.after for side in found.sides.values()) == pytest.approx(60_000, rel=3e-3)  # one tied account
    content = json.loads((run / CAMPAIGN).read_text())
    levels = content["sides"]["customer"]["levels"][:3]
    fewer = difference(run, changed(run, sides__customer__levels=levels), rows=500)
    wanted = open_what_if(run, rows=500).solver.ask(Change(levels={"customer": levels}))
    assert fewer.after.value.value == pytest.approx(wanted.value.value, rel=1e-9)
    assert [change.name for change in fewer.changes] == ["sides.customer.offers"]


def test_another_period_has_its_own_days_and_requests(run: Path) -> None:
    """Twice the requests and the money bring twice as much, whether by two days or by a busier one."""
    two_days = changed(run, hours=48, starts_at="2026-10-01T00:00:00+00:00", budget__limit=300_000)
    found = difference(run, two_days, rows=0)
    assert found.after.value.value == pytest.approx(2 * found.before.value.value, rel=1e-6)
    assert found.after.price.value == pytest.approx(found.before.price.value, rel=1e-4)
    busier = difference(run, changed(run, expected_requests=12_000, budget__limit=300_000), rows=0)
    assert busier.after.value.value == pytest.approx(2 * busier.before.value.value, rel=1e-6)


COMPLAINTS = np.array([0.01, 0.02, 0.05, 0.09])
"""Mean complaints of a customer's request by level."""


def best(run: Path, most: float) -> float:
    """Value of the linear program over all accounts with this sum of complaints, by HiGHS."""
    campaign, traffic, heads = changed(run), Traffic.load(run), load_heads(run / MODEL)
    embedding = pd.read_parquet(run / "embeddings.parquet").set_index(["side", "account_id"])["embedding"]
    value, rows, one, start = [], [], [], 0
    for side, terms in campaign.sides.items():
        asking = traffic.accounts[side]
        ahead = traffic.forecast(campaign).expected[side].sum() * asking.activity / asking.activity.sum()
        z = np.stack(embedding[side].loc[asking.account_id.tolist()].tolist())
        response = curves_of(heads[side], z).response.T.astype(float)
        levels, n = np.array(terms.levels), len(ahead)
        paid = response * levels if terms.cost_basis == "on_response" else np.broadcast_to(levels, response.shape)
        calls = np.broadcast_to(COMPLAINTS if side == "customer" else 0.0 * levels, response.shape)
        value.append((ahead[:, None] * terms.weight * response).ravel())
        rows.append(np.stack([(ahead[:, None] * each).ravel() for each in (paid, calls)]))
        one.append(np.repeat(np.arange(start, start + n), levels.size))
        start += n
    place = np.concatenate(one)
    each = sparse.csr_matrix((np.ones(place.size), (place, np.arange(place.size))))
    found = linprog(
        -np.concatenate(value),
        A_ub=np.concatenate(rows, axis=1),
        b_ub=[campaign.budget.limit, most],
        A_eq=each,
        b_eq=np.ones(start),
        method="highs-ipm",
    )
    return -float(found.fun)


def test_a_sum_of_a_second_outcome_costs_what_a_linear_program_says(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace = shutil.copytree(run, tmp_path / "workspace", symlinks=True)
    heads = load_heads(workspace / MODEL)
    heads["customer"] = replace(heads["customer"], guards={"x_calls": COMPLAINTS})
    save_heads(heads, workspace / MODEL)
    few = {"name": "few", "limit": 60.0, "outcome": "x_calls", "side": "customer"}
    loose = changed(run, limits={"budgets": [{**few, "limit": 1e6}]})
    after = changed(run, limits={"budgets": [few]})
    found = difference(workspace, after, loose, rows=0)
    without, kept = best(run, 1e6), best(run, 60.0)
    assert found.before.value.value == pytest.approx(without, rel=1e-5)
    assert found.after.value.value == pytest.approx(kept, rel=1e-5)
    (cost,) = found.prices
    assert cost.answer.value.value - found.after.value.value == pytest.approx(without - kept, rel=1e-2)
    assert without - kept > 10
    file, old = tmp_path / "new.json", tmp_path / "old.json"
    for path, limit in ((old, 60.0), (file, 20.0)):
        path.write_text(json.dumps(changed(run, limits={"budgets": [{**few, "limit": limit}]}).to_dict()))
    # Not even the lowest level of every customer has as few as 20.
    words = ["diff", str(old), str(file), "--run", str(workspace), "--rows", "500"]
    for first, second in ((old, file), (file, old)):
        words[1:3] = [str(first), str(second)]
        assert command.main(words) == 0
        told = " ".join(capsys.readouterr().out.split())
        assert "infeasible" in told
        assert not re.search(r"\bnan\b", told)
        assert "limit 'few' allows 20 x_calls for the requests to come, and even the levels with the least of" in told
        found = re.search(r"the least of it, with what explores and is held, have ([0-9.]+); raise the limit", told)
        assert found
        least = float(found[1])
        assert ("limits.budgets.few cannot be kept with the other terms; without it $" in told) == (second is file)
    assert 'limits.budgets.few: {"limit": 20.0}' in told
    # The figure is what is possible: a little more is solved, and a little less is not.
    for times, status in ((1.001, "optimal"), (0.999, "infeasible")):
        near = changed(run, limits={"budgets": [{**few, "limit": times * least}]})
        assert difference(workspace, near, rows=500).after.status == status


def test_a_limit_of_partners_is_asked_about_once_featurize_has_counted_them(run: Path, tmp_path: Path) -> None:
    """A cap per partner is one per account where each account asks beside a partner of its own."""
    workspace = shutil.copytree(run, tmp_path / "workspace", symlinks=True)
    limit = {**CAP, "side": "customer"}
    after = changed(run, limits={"caps": [{**limit, "per": "partner"}]})
    # Without the customers the answer would be that of merchants alone.
    with pytest.raises(NotFound, match=r"has not counted the partners of its customers.*run again"):
        difference(workspace, after, rows=0)
    traffic = Traffic.load(workspace)
    asking = traffic.accounts["customer"]
    pairs = pd.DataFrame({"account_id": asking.account_id, "activity": asking.activity.astype(int)})
    pairs["partner_id"] = "shop of " + pairs["account_id"]
    replace(traffic, pairs={"customer": pairs}).save(workspace)
    found = difference(workspace, after, rows=0).after
    wanted = difference(run, changed(run, limits={"caps": [limit]}), rows=0).after
    assert found.value.value == pytest.approx(wanted.value.value, rel=1e-6)
    assert found.spend.value == pytest.approx(wanted.spend.value, rel=1e-6)


def test_a_level_that_the_model_does_not_know_is_refused_and_no_change_says_so(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InvalidInput, match="has 75, which is not offered now"):
        difference(run, changed(run, sides__customer__levels=[0, 50, 75]), rows=100)
    with pytest.raises(InvalidInput, match="must stay 'all'"):
        difference(run, changed(run, name="other"), rows=100)
    worth = {"objective": "value", "sides__customer__worth": "amount"}
    with pytest.raises(InvalidInput, match="long_term: must stay None"):
        difference(run, changed(run, **worth, long_term={"late": "x_late", "early": ["amount"]}), rows=100)
    assert flatten(changed(run)) == flatten(Campaign.from_dict(json.loads((run / CAMPAIGN).read_text())))
    assert command.main(["diff", str(run), str(run / CAMPAIGN), "--rows", "200"]) == 0
    assert "the same terms" in capsys.readouterr().out
    file = tmp_path / "new.json"
    loose = Limits.from_dict({"budgets": [{"name": "loose", "limit": 10**9, "period": "hour"}]})
    file.write_text(json.dumps(changed(run, rules=[DEAREST], limits=loose.to_dict()).to_dict()))
    assert command.main(["diff", str(run), str(file), "--rows", "200"]) == 0
    assert "rules.no-dearest costs" in (told := capsys.readouterr().out)
    assert "limits.budgets.loose costs 0 of value" in told
    assert command.main(["diff", str(run / CAMPAIGN), str(file), "--rows", "200", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["after"]["value"]["value"] < told["before"]["value"]["value"]
