"""Files of an invented company in Berlin that hold generated voucher sessions, and a week of it."""

from collections.abc import Callable
from pathlib import Path

from benchmarks.companies.files import write_files
from benchmarks.companies.week import HOURS, OVERRIDE, SIDE, Week, command, named, play
from operations.common.workspace import read_campaign
from serving.local.launch import Services
from shadowprice.datasets import load
from shadowprice.datasets.truth import true_curves
from shadowprice.pacing.history import Traffic
from shadowprice.pacing.replay.day import draw_day
from shadowprice.tables import SessionTables

MAPPING = Path(__file__).with_suffix(".yaml")
"""Mapping of the company's files."""


def play_vouchers(
    folder: Path,
    *,
    sessions: int,
    requests: int,
    epochs: int,
    every: float,
    look: Callable[[Services], None] | None = None,
) -> Week:
    """Write the files of a company, learn from them by their mapping, and play a week with the generator's truth.

    The budget of the week binds: it has about a dollar for each request.
    """
    dataset, workspace = load("vouchers", seed=0, sessions=sessions), folder / "run"
    assert dataset.sessions is not None
    assert dataset.truth is not None
    own = {"hours": str(HOURS), "expected_requests": str(requests), "budget_limit": f"{requests}.00"}
    mapping = write_company(folder / "company", dataset.sessions, **own)
    given = {"workspace": workspace, "data": mapping, "epochs": epochs, "override": OVERRIDE}
    command(
        "pipelines", "run", "vouchers", *(word for pair in given.items() for word in ("--set", "{}={}".format(*pair)))
    )
    campaign, traffic = read_campaign(workspace), Traffic.load(workspace)
    accounts, levels = traffic.accounts[SIDE].account_id, campaign.terms(SIDE).levels
    truth = true_curves(dataset.truth, SIDE, accounts, len(levels))
    day = draw_day(traffic.forecast(campaign).expected, traffic.accounts, seed=0, name="week")
    moments = [every * number for number in range(int(HOURS / every))]
    return play(workspace, day, named(accounts, levels, truth), truth, moments=moments, look=look)


def write_company(folder: Path, tables: SessionTables, **campaign: str) -> Path:
    """Write the log as four CSV files with names, amounts and times of their own, and return the mapping.

    ``campaign`` are columns of the campaign with other values.
    """
    session = tables.session
    offers = session.drop_duplicates("voucher_id")[["voucher_id", "discount", "min_spend"]]
    used = session.loc[session["redeemed_at"].notna(), ["session_id", "redeemed_at"]]
    files = {
        "geholt": session,
        "scheine": offers.rename(columns={"voucher_id": "offer_id", "discount": "face_value"}),
        "eingeloest": used.rename(columns={"session_id": "request_id", "redeemed_at": "observed_at"}),
        "koerbe": tables.behaviour,
    }
    return write_files(folder, MAPPING, files, **campaign)
