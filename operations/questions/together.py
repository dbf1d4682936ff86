"""Estimate what all campaigns of a company bring together, against the accounts that none of them treats."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from operations.common.accounts import accounts_of
from operations.common.maturity import BY_CAMPAIGN, hours_of
from operations.common.workspace import log_of, read_campaign, read_worths
from operations.questions.propose import check_values
from shadowprice.arms import COMPANY, WHOLE, Holdout
from shadowprice.campaign import Campaign
from shadowprice.errors import InvalidInput, NotCertified
from shadowprice.experiments.analysis import ALARM
from shadowprice.experiments.columns import Columns
from shadowprice.experiments.effects import Effect
from shadowprice.experiments.lifts import Lift, lift
from shadowprice.experiments.sample_ratio import sample_ratio
from shadowprice.experiments.served import READ, check_holdout, served_requests, with_units
from shadowprice.pacing.decision_log.served import final, read_log

REST = "all campaigns"
"""Accounts that campaigns may treat, whatever their arms in each."""


@dataclass(frozen=True, kw_only=True)
class Together:
    """Effect of all campaigns on the accounts that they may treat; values are in the unit that they have together.

    campaigns  name → campaign
    accounts   that the campaigns can reach, and ``held`` of them, which none treats
    requests   name → requests of each campaign whose outcome is known; ``left_out`` those from before the holdout
    lift       of the sums of an account over all campaigns
    by         name → lift of the sums of an account in that campaign alone
    forgone    value that the held accounts would have brought
    saved      minor units that they would have been paid
    """

    campaigns: Mapping[str, Campaign]
    accounts: int
    held: int
    requests: Mapping[str, int]
    left_out: Mapping[str, int]
    lift: Lift
    by: Mapping[str, Lift]
    forgone: Effect
    saved: Effect


def together(
    workspaces: Sequence[Path],
    logs: Mapping[str, Path] | None = None,
    accounts: Path | None = None,
    weights: Mapping[str, float] | None = None,
    mature_hours: int = BY_CAMPAIGN,
) -> Together:
    """Estimate the lift of all campaigns together.

    The outcomes and the money of an account are summed over the campaigns, and means per account of the held accounts
    are compared with those of all others, asked or not. The intervals are clustered by account, and by partner where
    requests name one.

    Args:
        workspaces: folder of each run; every campaign has the same holdout.
        logs: name → folder of the decision log; that of the workspace where it is not named.
        accounts: parquet file with account_id of all accounts, as known before the campaigns; None: those of the
            models.
        weights: name → worth of one unit of its value, as of :func:`~operations.questions.propose.propose`.
        mature_hours: age at which a decision without an outcome counts as no response.

    Raises:
        InvalidInput: campaigns without a holdout or with different ones, in different currencies or objectives, no
            list of accounts, a log that was not served with the holdout, or no decision of that age.
        InvalidTable: a log has held accounts that the holdout does not hold.
        NotCertified: the share of the held accounts in the list is not that of the holdout.
    """
    weights, campaigns, rows = weights or {}, {}, []
    left_out: dict[str, int] = {}
    folders = {workspace: read_campaign(workspace) for workspace in workspaces}
    for campaign in folders.values():
        if campaign.name in campaigns:
            raise InvalidInput(f"there is another campaign of the name {campaign.name!r}", field="workspaces")
        campaigns[campaign.name] = campaign
    check_values(campaigns, weights)
    holdout = _holdout(campaigns)
    for workspace, campaign in folders.items():
        log = (logs or {}).get(campaign.name) or log_of(workspace)
        found, early = _requests(log, workspace, campaign, holdout, mature_hours)
        found["value"] *= weights.get(campaign.name, 1.0)
        left_out[campaign.name] = early
        rows.append(found.assign(campaign=campaign.name))
    if all(found.empty for found in rows):
        raise InvalidInput(
            f"no decision of {', '.join(campaigns)} is old enough that a missing outcome counts as no response; wait, "
            "or give 0 where the outcomes are all there",
            field="mature_hours",
        )
    every, columns = with_units(pd.concat(rows, ignore_index=True), None)
    every["arm"] = _arms(every["account_id"], holdout)
    listed = _accounts(folders, accounts).drop_duplicates(ignore_index=True)
    listed["arm"] = _arms(listed["account_id"], holdout)
    held = int((listed["arm"] == COMPANY).sum())
    shares = {COMPANY: holdout.share, REST: WHOLE - holdout.share}
    if sample_ratio({COMPANY: held, REST: len(listed) - held}, shares, level=ALARM).mismatch:
        raise NotCertified(
            f"{held} of {len(listed)} accounts are held, and the holdout is {holdout.share / WHOLE:.2%}: the list is "
            "not one of all accounts; give --accounts"
        )
    total = _lift(every, listed, columns)
    by = {name: _lift(every.assign(**_alone(every, name)), listed, columns) for name in campaigns}
    return Together(
        campaigns=campaigns,
        accounts=len(listed),
        held=held,
        requests={name: int((every["campaign"] == name).sum()) for name in campaigns},
        left_out=left_out,
        lift=total,
        by=by,
        forgone=total.value.times(held),
        saved=total.cost.times(held),
    )


def _holdout(campaigns: Mapping[str, Campaign]) -> Holdout:
    of = {name: campaign.holdout for name, campaign in campaigns.items()}
    missing = [name for name, holdout in of.items() if holdout is None]
    if missing:
        raise InvalidInput(f"of {missing[0]!r} is missing; all campaigns repeat the same one", field="holdout")
    known = {holdout for holdout in of.values() if holdout is not None}
    if len(known) > 1:
        told = {name: f"{holdout.share} of {holdout.key!r}" for name, holdout in of.items() if holdout is not None}
        raise InvalidInput(f"must be the same in all campaigns, got {told}", field="holdout")
    (one,) = known
    return one


def _requests(
    folder: Path, workspace: Path, campaign: Campaign, holdout: Holdout, mature_hours: int
) -> tuple[pd.DataFrame, int]:
    """Return the requests of a campaign whose outcome is known, and the number of those from before the holdout."""
    log = read_log(folder, columns=READ)
    check_holdout(log, campaign)
    asked = served_requests(log, campaign, read_worths(campaign, workspace), everybody=True)
    # A predictor that restarts later answers held accounts by their own arms until then.
    treated = (_arms(asked["account_id"], holdout) == COMPANY) & (asked["arm"] != COMPANY).to_numpy()
    since = (asked["decided_at"] > asked.loc[treated, "decided_at"].max()).to_numpy() if treated.any() else ~treated
    if not since.any():
        raise InvalidInput(
            f"{campaign.name}: accounts of the holdout were treated until the end of its log; restart predictor and "
            "ledger with the holdout, and wait",
            field="holdout",
        )
    known = final(log, asked["decided_at"], hours_of(mature_hours, campaign))
    return asked[since & known].reset_index(drop=True), int((~since).sum())


def _accounts(folders: Mapping[Path, Campaign], file: Path | None) -> pd.DataFrame:
    """Return the accounts that the campaigns can reach."""
    parts = []
    for workspace, campaign in folders.items():
        names = accounts_of(file, workspace, sorted(campaign.sides), partners=False, features=None)
        if names is None:
            raise InvalidInput(f"{workspace} has no model; give a file of all accounts", field="accounts")
        parts.append(names)
    return parts[0] if file is not None else pd.concat(parts)


def _arms(accounts: pd.Series, holdout: Holdout) -> NDArray[np.str_]:
    code, names = pd.factorize(accounts)
    return np.where(holdout.holds(names.tolist()), COMPANY, REST)[code]


def _alone(rows: pd.DataFrame, name: str) -> dict[str, pd.Series]:
    own = rows["campaign"] == name
    return {column: rows[column].where(own, 0) for column in ("value", "cost")}


def _lift(rows: pd.DataFrame, listed: pd.DataFrame, columns: Columns) -> Lift:
    (found,) = lift(rows, COMPANY, listed, columns=columns, arms=[REST])
    return found
