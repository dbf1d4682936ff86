"""Files of an invented company in Berlin that hold generated voucher sessions, and a week of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from benchmarks.companies.week import HOURS, OVERRIDE, SIDE, Week, command, named, play
from operations.common.workspace import read_campaign
from serving.local.launch import Services
from shadowprice.datasets import load
from shadowprice.datasets.truth import true_curves
from shadowprice.pacing.history import Traffic
from shadowprice.pacing.replay.day import draw_day
from shadowprice.tables import SessionTables

ZONE = "Europe/Berlin"
FORM = "%d.%m.%Y %H:%M:%S"
MAPPING = Path(__file__).with_suffix(".yaml")
"""How the company describes its files."""


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
    session, behaviour = tables.session, tables.behaviour

    def local(times: Any) -> Any:
        return times.dt.tz_convert(ZONE).dt.strftime(FORM)

    def euros(cents: pd.Series) -> pd.Series:
        return cents.map(lambda amount: f"{amount / 100:.2f}".replace(".", ","))

    features = [name for name in session.columns if name.startswith(("x_", "c_"))]
    own = {name: name[2:].replace("_", " ").title() for name in features}
    collected = pd.DataFrame(
        {"Vorgang": session["session_id"], "Kundin": session["user_id"], "Gutschein": session["voucher_id"]}
    )
    collected = collected.assign(geholt=local(session["collected_at"]), gilt_bis=local(session["expires_at"])).join(
        session[features].rename(columns=own)
    )
    vouchers = session.drop_duplicates("voucher_id")
    terms = pd.DataFrame(
        {"Nr": vouchers["voucher_id"], "Wert": euros(vouchers["discount"]), "ab": euros(vouchers["min_spend"])}
    )
    used = session[session["redeemed_at"].notna()]
    redeemed = pd.DataFrame({"Vorgang": used["session_id"], "Zeit": used["redeemed_at"].dt.strftime("%s")})
    events = pd.DataFrame(
        {
            "Vorgang": behaviour["session_id"],
            "Artikel": behaviour["item_id"],
            "Art": behaviour["action"].map({"cart": "Korb", "order": "Kauf"}),
            "wann": behaviour["ts"].dt.tz_convert("Asia/Tokyo").dt.strftime("%Y-%m-%dT%H:%M:%S"),
            "Gruppe": behaviour["category"],
            "Marke": behaviour["brand"],
            "Preisstufe": behaviour["price_level"],
        }
    )
    folder.mkdir(parents=True, exist_ok=True)
    for name, frame in {"geholt": collected, "scheine": terms, "eingeloest": redeemed, "koerbe": events}.items():
        frame.to_csv(folder / f"{name}.csv", sep=";", index=False)
    described = yaml.safe_load(MAPPING.read_text())
    described["campaign"] |= campaign
    path = folder / "mapping.yaml"
    path.write_text(yaml.safe_dump(described, allow_unicode=True, sort_keys=False))
    return path
