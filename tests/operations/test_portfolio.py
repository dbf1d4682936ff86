"""One sum of money for several workspaces: the proposal, its certificate and its words."""

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from asked import make_workspace

import cli.main as command
from operations.common.workspace import CAMPAIGN, MODEL, PRICES, read_campaign
from operations.measure import MeasureJob
from operations.measure import run as run_measure
from operations.questions.difference import difference
from operations.questions.propose import propose
from operations.questions.question import open_what_if
from serving.client.client import LedgerClient
from serving.ledger.moves import Move, MoveRow
from serving.local.launch import Service, free_port
from serving.portfolio.__main__ import move_once
from serving.portfolio.look import Member, stand
from shadowprice.allocation.portfolio.moves import plan_moves
from shadowprice.campaign import Budget, Campaign, PortfolioTerms
from shadowprice.errors import InvalidInput, Unavailable
from shadowprice.learning.bundle import POSTERIOR
from shadowprice.pacing.budgets.in_hand import remaining_budget
from shadowprice.pacing.price_store import PriceStore
from shadowprice.pacing.questions import Change
from shadowprice.pacing.state import PricingState
from shadowprice.price import PriceRecord
from shadowprice.responses.posterior import CurvePosterior


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two campaigns on the same accounts: the second has a fifth of the money and twice the worth of a merchant."""
    first = make_workspace(tmp_path_factory.mktemp("first"))
    second = tmp_path_factory.mktemp("second") / "run"
    shutil.copytree(first, second)
    change(first, name="spring")
    campaign = change(second, name="merchants")
    campaign["budget"]["limit"] //= 5
    campaign["sides"]["merchant"]["weight"] *= 2
    (second / CAMPAIGN).write_text(json.dumps(campaign))
    return [first, second]


def change(folder: Path, **fields: Any) -> dict[str, Any]:
    campaign: dict[str, Any] = json.loads((folder / CAMPAIGN).read_text()) | fields
    (folder / CAMPAIGN).write_text(json.dumps(campaign))
    return campaign


def test_the_last_unit_of_money_returns_the_same_and_no_other_division_brings_more(runs: list[Path]) -> None:
    found = propose(runs, rows=300)
    assert found.portfolio.gap < 1e-6
    assert sum(proposal.then.budget for proposal in found.of.values()) <= found.total
    prices = [proposal.then.price.value for proposal in found.of.values()]
    assert prices[0] == pytest.approx(prices[1], rel=0.02)
    assert found.of["merchants"].now.price.value > found.of["spring"].now.price.value
    assert found.of["merchants"].moved > 0 > found.of["spring"].moved
    assert found.gained > 0
    # Brute force: value at every percent of the money, from the same solves.
    solvers = [open_what_if(run, rows=300).solver for run in runs]
    values = [
        sum(
            solver.ask(Change(budget=round(part * found.total))).value.value
            for solver, part in zip(solvers, (share, 1 - share), strict=True)
        )
        for share in np.linspace(0, 1, 26)
    ]
    assert max(values) <= found.portfolio.value * (1 + 1e-6)


def test_floors_and_caps_hold_and_alike_campaigns_are_left_alone(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cap = ["--cap", "merchants=400", "--rows", "300"]
    assert command.main(["portfolio", *map(str, runs), *cap, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["campaigns"]["merchants"]["proposed"] == 40_000
    twin = tmp_path / "twin"
    shutil.copytree(runs[0], twin)
    change(twin, name="twin")
    assert command.main(["portfolio", str(runs[0]), str(twin), "--rows", "300"]) == 0
    assert "leave the budgets" in capsys.readouterr().out


def test_the_bounds_of_moves_stop_no_question_about_other_budgets(runs: list[Path], tmp_path: Path) -> None:
    copies = [Path(shutil.copytree(run, tmp_path / run.parent.name / run.name, symlinks=True)) for run in runs]
    for copy in copies:
        limit = int(read_campaign(copy).budget.limit)
        change(copy, portfolio={"name": "company", "floor": limit - 1, "cap": limit + 1, "largest_move": 1})
    found, wanted = propose(copies).portfolio, propose(runs).portfolio
    assert (found.budget, found.price, found.value) == (wanted.budget, wanted.price, wanted.value)
    wider = json.loads((copies[0] / CAMPAIGN).read_text())
    wider["budget"]["limit"] *= 2
    wider["portfolio"]["cap"] *= 3
    changed = difference(copies[0], Campaign.from_dict(wider), rows=500)
    assert {one.name: one.answer.value.value for one in changed.changes} == {
        "budget.limit": pytest.approx(changed.after.value.value),
        "portfolio": pytest.approx(changed.before.value.value),
    }


def test_returns_differ_only_beyond_the_errors_of_the_curves(runs: list[Path], tmp_path: Path) -> None:
    copies = [Path(shutil.copytree(folder, tmp_path / folder.parent.name / folder.name)) for folder in runs]
    law = CurvePosterior(np.zeros(4), np.diag([0.01, 0.3, 0.3, 0.3])).to_dict()
    for folder in copies:
        meta = json.loads((folder / MODEL / "model.json").read_text()) | {POSTERIOR: {"customer": law}}
        (folder / MODEL / "model.json").write_text(json.dumps(meta))
    sure, unsure = (propose(folders, rows=0).of["merchants"] for folders in (runs, copies))
    assert sure.beyond_noise
    assert sure.returns == sure.now.price
    assert unsure.returns.high - unsure.returns.low > sure.returns.high - sure.returns.low
    assert not unsure.beyond_noise


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": "spring"}, "another campaign of the name 'spring'"),
        ({"currency": "EUR"}, "currency: must be one of all campaigns"),
        ({"budget": {"name": "day", "limit": 12.5, "form": "per_account"}}, "only totals can be divided"),
    ],
)
def test_campaigns_whose_money_cannot_be_added_are_refused(
    runs: list[Path], tmp_path: Path, fields: dict[str, Any], words: str
) -> None:
    other = tmp_path / "other"
    shutil.copytree(runs[1], other)
    change(other, **fields)
    with pytest.raises(InvalidInput, match=words):
        propose([runs[0], other], rows=100)
    with pytest.raises(InvalidInput, match="above the total"):
        propose(runs, total=1000, floors={"spring": 2000}, rows=100)


TERMS = {"name": "company", "cap": 400_000, "largest_move": 5_000, "curve_error": 0.05}


@pytest.fixture(scope="module")
def running(runs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A folder of the two campaigns in their second hour, with prices and terms of a portfolio, and their ledger."""
    folder = tmp_path_factory.mktemp("campaigns")
    now = datetime.now(UTC)
    starts_at = (now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)).isoformat()
    for run, name in zip(runs, ("spring", "merchants"), strict=True):
        shutil.copytree(run, folder / name)
        limit = {"spring": 60_000, "merchants": 20_000}[name]
        change(folder / name, portfolio=TERMS, starts_at=starts_at, budget={"name": "day", "limit": limit})
        judge(folder / name, True)
        publish(folder / name, name, now)
    command = ["serving.ledger", "--campaigns", str(folder), "--db", str(folder / "db")]
    (folder / "db").mkdir()
    port = free_port()
    ledger = Service("ledger", [*command, "--port", str(port)], port, "/readyz", folder / "ledger.log")
    try:
        ledger.wait_ready(60)
        yield folder, ledger.url
    finally:
        ledger.stop()


def judge(workspace: Path, passed: bool) -> None:
    meta = {"model_version": "m1", "gate": {"passed": passed, "broken": [], "override": None}}
    (workspace / MODEL / "model.json").write_text(json.dumps(meta))


def publish(workspace: Path, name: str, at: datetime, version: int = 1) -> None:
    figures = {"tie_share": 1.0, "primal": 1.0, "dual": 1.0, "gap": 0.0, "violation": 0.0, "spent": 0, "remaining": 10}
    figures |= {"sample_rows": 5, "version": version, "slot": version}
    times = {"solved_at": at, "expires_at": at + timedelta(hours=2)}
    price = PriceRecord(campaign=name, prices={"day": 0.01}, status="optimal", model_version="m1", **figures, **times)
    PriceStore(workspace / PRICES).publish(price.sealed())


def move(running: tuple[Path, str], capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    folder, url = running
    given = ["portfolio", "move", "--campaigns", str(folder), "--ledger-url", url, "--json", *options]
    assert command.main(given) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return found


def limits(running: tuple[Path, str]) -> dict[str, int]:
    found = {}
    for name in ("spring", "merchants"):
        with LedgerClient(running[1], name) as ledger:
            totals = ledger.totals()
            assert totals["money_left"] == totals["budget"]["limit"] + totals["moved"]
            found[name] = int(totals["budget"]["limit"] + totals["moved"])
    return found


def test_unspent_money_moves_to_where_it_returns_more_once_an_hour_and_comes_back(
    running: tuple[Path, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before = limits(running)
    planned = move(running, capsys, "--dry_run")
    assert [each["state"] for each in planned["moves"]] == ["planned"]
    assert limits(running) == before
    found = move(running, capsys)
    (made,) = found["moves"]
    assert (made["source"], made["target"], made["amount"], made["state"]) == ("spring", "merchants", 5_000, "taken")
    words = r"\$50\.00 from spring to merchants: \$1 returns 0?\.\d+ there, 0?\.\d+ here"
    assert re.fullmatch(words, made["reason"]), made["reason"]
    assert made["source_price"][2] < made["target_price"][1]
    assert limits(running) == {"spring": before["spring"] - 5_000, "merchants": before["merchants"] + 5_000}
    # Within the hour the same campaign gives nothing more.
    assert move(running, capsys)["moves"] == []
    # The hourly solve has the limits that the moves left.
    folder, url = running
    for name, moved in (("spring", -5_000), ("merchants", 5_000)):
        run_measure(MeasureJob(workspace=folder / name, state=tmp_path / "state.json", ledger_url=url))
        spend = PricingState.load(tmp_path / "state.json").spend
        campaign = read_campaign(folder / name)
        assert (spend.moved, remaining_budget(campaign, spend)) == (moved, before[name] + moved)
        asked = open_what_if(folder / name, tmp_path / "state.json", rows=300).solver
        assert asked.ask().budget == before[name] + moved
    (undone,) = move(running, capsys, "--undo", made["id"])["moves"]
    assert undone["state"] == "taken"
    assert limits(running) == before
    with LedgerClient(url, "spring") as ledger:
        assert [(row.half, row.state, row.move.undoes) for row in ledger.moves()] == [
            ("give", "taken", ""),
            ("take", "taken", made["id"]),
        ]
    # No ledger has lost anything.
    assert move(running, capsys, "--restore")["moves"] == []


def test_a_move_under_way_is_told_of_and_taken_back(
    running: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    before = limits(running)
    prices = (0.1, 0.0, 0.2), (0.3, 0.2, 0.4)
    begun = Move("begun", "spring", "merchants", 1_000, 0, *prices, "$10.00 from spring to merchants", "another")
    with LedgerClient(running[1], "spring") as ledger:
        assert ledger.move("spring", "give", begun) == "sent"
    folder, url = running
    asked = ["portfolio", "move", "--campaigns", str(folder), "--ledger-url", url, "--dry_run"]
    assert command.main(asked) == 1
    assert "Under way, in no limit: $10.00 from spring to merchants. Take it back with --undo 'begun'." in (
        capsys.readouterr().out
    )
    (ended,) = move(running, capsys, "--undo", "begun")["moves"]
    assert (ended["id"], ended["state"]) == ("begun", "returned")
    assert limits(running) == before


def test_alike_campaigns_move_nothing_and_a_larger_difference_does(runs: list[Path]) -> None:
    campaign = read_campaign(runs[0])

    def member(name: str, limit: int) -> Member:
        terms = PortfolioTerms(**TERMS)
        own = replace(campaign, name=name, budget=Budget(name="day", limit=limit))
        solver = open_what_if(runs[0], rows=300, campaign=own).solver
        room = {"may_give": 5_000, "may_take": 5_000}
        return Member(campaign=replace(own, portfolio=terms), limit=limit, solver=solver, **room)

    def moved(*limits: int) -> list[tuple[str, str, int]]:
        members = {f"c{place}": member(f"c{place}", limit) for place, limit in enumerate(limits)}
        return [(source.name, target.name, amount) for source, target, amount in plan_moves(stand(members))]

    assert moved(60_000, 60_000) == []
    # The division would move money, and the prices are no different.
    assert moved(60_000, 62_000) == []
    assert moved(60_000, 20_000) == [("c0", "c1", 5_000)]
    # What a campaign cannot use goes to the only one that runs.
    ended = Member(campaign=campaign, limit=60_000, may_give=3_000, may_take=0, solver=None)
    planned = plan_moves(stand({"over": ended, "c1": member("c1", 20_000)}))
    assert [(each.source.name, each.amount) for each in planned] == [("over", 3_000)]


def test_a_ledger_that_does_not_answer_keeps_its_limit_and_stops_nobody_else(runs: list[Path], tmp_path: Path) -> None:
    class Silent:
        def moves(self) -> list[MoveRow]:
            raise Unavailable("no answer")

    class Answering:
        def moves(self) -> list[MoveRow]:
            return []

        def totals(self) -> dict[str, Any]:
            return {"moved": 0, "net_spent": 0, "outstanding": 0, "late_by_side": {}}

    campaigns, ledgers = {}, {}
    for name, ledger in (("spring", Silent()), ("merchants", Answering())):
        ended = datetime.now(UTC) - timedelta(days=9)
        terms = PortfolioTerms(**TERMS)
        campaigns[name] = replace(read_campaign(runs[0]), name=name, portfolio=terms, starts_at=ended)
        ledgers[name] = ledger
    done = move_once(dict.fromkeys(campaigns, tmp_path), campaigns, ledgers, lambda *_: None, datetime.now(UTC))
    assert (done.moves, done.kept, done.left) == ([], {"spring": "no answer"}, [])


def test_campaigns_whose_curves_cannot_be_trusted_keep_their_money(
    running: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = running
    judge(folder / "merchants", False)
    kept = move(running, capsys, "--dry_run")
    assert (kept["moves"], "not identified" in kept["kept"]["merchants"]) == ([], True)
    judge(folder / "merchants", True)
    publish(folder / "merchants", "merchants", datetime.now(UTC) - timedelta(hours=3), version=2)
    kept = move(running, capsys, "--dry_run")
    assert (kept["moves"], "has expired" in kept["kept"]["merchants"]) == ([], True)
    publish(folder / "merchants", "merchants", datetime.now(UTC), version=3)
    assert move(running, capsys, "--dry_run")["kept"] == {}
    change(folder / "merchants", portfolio=None)
    assert move(running, capsys, "--dry_run")["moves"] == []
