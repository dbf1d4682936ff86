"""The stored curves of all accounts: what they are, how requests are counted, and the price solved on them."""

import json
import shutil
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from shadowprice.allocation.sources import side as source
from shadowprice.campaign import Budget, Campaign, Side, Terms
from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput
from shadowprice.pacing import window
from shadowprice.pacing.forecast import Profile
from shadowprice.pacing.history import Traffic
from shadowprice.pacing.population import read_population, write_population
from shadowprice.pacing.replay.day import Accounts
from shadowprice.pacing.window import solve_window
from shadowprice.responses.layers.heads import HazardHead, Head

CUSTOMER = (0, 50, 100, 200, 400)
MERCHANT = (0, 100, 200)
ROWS = 3000


def head(levels: tuple[int, ...], seed: int) -> HazardHead:
    rng = np.random.default_rng(seed)
    return HazardHead(
        levels=np.array(levels),
        weight=rng.normal(0, 0.3, (len(levels), 8)).astype(np.float32),
        bias=rng.normal(-3, 0.3, len(levels)).astype(np.float32),
        default_embedding=np.zeros(8, dtype=np.float32),
        base_weight=rng.normal(0, 0.3, 8).astype(np.float32),
        base_bias=-2.0,
    )


@pytest.fixture
def heads() -> dict[Side, Head]:
    return {"customer": head(CUSTOMER, 1), "merchant": head(MERCHANT, 2)}


@pytest.fixture
def bundle(tmp_path: Path) -> tuple[Path, dict[Side, np.ndarray]]:
    """Embeddings of both sides, mixed in one file of several row groups."""
    rng = np.random.default_rng(3)
    drawn = {side: rng.normal(size=(ROWS, 8)).astype(np.float32) for side in ("customer", "merchant")}
    frames = [
        pd.DataFrame({"account_id": [f"{side[0]}{i}" for i in range(ROWS)], "side": side, "embedding": list(z)})
        for side, z in drawn.items()
    ]
    pd.concat(frames).to_parquet(tmp_path / "embeddings.parquet", index=False, row_group_size=700)
    return tmp_path / "embeddings.parquet", drawn  # type: ignore[return-value]


def traffic(seed: int = 0) -> Traffic:
    rng = np.random.default_rng(seed)
    accounts = {
        side: Accounts(np.array([f"{side[0]}{i}" for i in range(0, ROWS, 2)]), rng.poisson(2, ROWS // 2) + 1.0)
        for side in ("customer", "merchant")
    }
    return Traffic({side: Profile(np.ones(24), 100.0) for side in accounts}, accounts)  # type: ignore[misc]


def plan(form: str = "total", limit: float = 150_000, exploration: float = 0.0) -> Campaign:
    return Campaign(
        name="all",
        sides={
            "customer": Terms(levels=CUSTOMER),
            "merchant": Terms(levels=MERCHANT, cost_basis="on_grant", weight=0.4),
        },
        budget=Budget(form=form, limit=limit),  # type: ignore[arg-type]
        starts_at=datetime(2026, 3, 1, tzinfo=UTC),
        exploration=exploration,
    )


def test_stored_curves_are_those_of_the_heads_and_activity_is_the_traffics(tmp_path, heads, bundle) -> None:
    path, drawn = bundle
    past = traffic()
    write_population(tmp_path / "p", heads, path, past)
    found = read_population(tmp_path / "p", heads)
    for side, z in drawn.items():
        np.testing.assert_array_equal(found[side].curves.response, heads[side].response(z))
        weights = dict(zip(found[side].account_id.to_pylist(), found[side].curves.weight.tolist(), strict=True))
        asked = dict(zip(past.accounts[side].account_id, past.accounts[side].activity, strict=True))
        assert weights == {name: asked.get(name, 0.0) for name in weights}


def test_registering_again_renews_the_activity_and_keeps_the_curves(tmp_path, heads, bundle) -> None:
    path, _ = bundle
    write_population(tmp_path / "p", heads, path, traffic(0))
    written = (tmp_path / "p/customer/response.npy").stat().st_mtime_ns
    write_population(tmp_path / "p", heads, path, traffic(1))
    assert (tmp_path / "p/customer/response.npy").stat().st_mtime_ns == written
    found = read_population(tmp_path / "p", heads)["customer"].curves.weight
    assert (
        found.sum() == traffic(1).accounts["customer"].activity.sum() != traffic(0).accounts["customer"].activity.sum()
    )


def test_requests_of_the_window_are_counted_and_unknown_accounts_named(tmp_path, heads, bundle) -> None:
    write_population(tmp_path / "p", heads, bundle[0], traffic())
    population = read_population(tmp_path / "p", heads)["customer"]
    names = np.array(["c1", "new", "c4", "c1", "other", "new"])
    curves, unknown = population.count(names, 2.5)
    assert Counter(unknown.tolist()) == {"new": 2, "other": 1}
    added = curves.weight - population.curves.weight
    assert {population.account_id[int(row)].as_py(): added[row] for row in np.flatnonzero(added)} == {
        "c1": 5,
        "c4": 2.5,
    }


def test_a_damaged_file_is_named(tmp_path, heads, bundle) -> None:
    write_population(tmp_path / "p", heads, bundle[0], traffic())
    (tmp_path / "p/merchant/response.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(InvalidInput, match=r"merchant.*remove this folder and register the model again") as refused:
        read_population(tmp_path / "p", heads)
    shutil.rmtree(refused.value.field)
    write_population(tmp_path / "p", heads, bundle[0], traffic())
    found = read_population(tmp_path / "p", heads)["merchant"].curves
    np.testing.assert_array_equal(found.response, heads["merchant"].response(bundle[1]["merchant"]))


@pytest.mark.parametrize("exploration", [0.0, 0.05])
@pytest.mark.parametrize(("form", "limit"), [("total", 150_000), ("per_account", 20.0), ("per_response", 90.0)])
def test_tiles_files_and_weights_give_the_price_of_the_requests_written_out(
    tmp_path, heads, bundle, form, limit, exploration, monkeypatch
) -> None:
    """An account that asks w times is w requests; an independent problem has each of them as a column."""
    write_population(tmp_path / "p", heads, bundle[0], traffic())
    stored = {side: each.curves for side, each in read_population(tmp_path / "p", heads).items()}
    ahead: dict[Side, float] = {"customer": 2000.0, "merchant": 900.0}
    campaign = plan(form, limit, exploration)
    written_out = {
        side: Curves(curves.levels, np.repeat(curves.response, curves.weight.astype(int), axis=1))
        for side, curves in stored.items()
    }
    expected = solve_window(campaign, written_out, ahead, 150_000.0 if form == "total" else 0.0)
    assert expected.allocation.prices[0] > 0
    for in_memory, step in ((window.IN_MEMORY, source.STEP), (0, 500)):
        monkeypatch.setattr(window, "IN_MEMORY", in_memory)
        monkeypatch.setattr(source, "STEP", step)
        found = solve_window(campaign, stored, ahead, 150_000.0 if form == "total" else 0.0)
        assert found.allocation.prices[0] == pytest.approx(expected.allocation.prices[0], rel=1e-12)
        assert found.primal == pytest.approx(expected.primal, rel=1e-9)
        assert found.dual == pytest.approx(expected.dual, rel=1e-9)
        assert found.allocation.gap < 1e-9
        assert found.spend == pytest.approx(expected.spend, rel=5e-3)  # one account is rounded as a whole


@pytest.mark.parametrize("weight", [[-1.0, 2.0], [np.nan, 1.0], [0.0, 0.0]])
def test_weights_that_are_no_counts_are_refused(weight) -> None:
    with pytest.raises(InvalidInput, match="weight"):
        Curves(np.array([0, 1]), np.ones((2, 2)), np.array(weight)).shares()


def test_an_interrupted_write_leaves_nothing_behind(tmp_path, heads, bundle, monkeypatch) -> None:
    monkeypatch.setattr(HazardHead, "response", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        write_population(tmp_path / "p", heads, bundle[0], traffic())
    assert json.dumps([path.name for path in (tmp_path / "p").iterdir()]) == "[]"
