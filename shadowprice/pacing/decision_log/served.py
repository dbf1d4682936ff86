"""Read decisions and outcomes from the ledger's append-only log, each counted once.

A writer that was interrupted may write rows again, so segments may overlap: reading drops what was read. Small
segments are replaced by larger ones at any time: a segment that vanishes while it is read is listed again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shadowprice.arms import COMPANY
from shadowprice.campaign import Campaign
from shadowprice.errors import InvalidTable, NotFound
from shadowprice.pacing.decision_log.segments import SCHEMAS, RowKind, tables_after

FLAG: Final = "boolean"
WHOLE: Final = "Int64"
"""Canonical types, as :mod:`shadowprice.tables.schema` has them; the services log without its checker installed."""
KEYS: Final[Mapping[RowKind, tuple[str, ...]]] = {
    "decisions": ("request_id",),
    "outcomes": ("request_id",),
    "corrections": ("source", "event_id"),
}
"""Columns that tell a row from the others of its kind."""
TIMES: Final[Mapping[RowKind, str]] = {"decisions": "decided_at", "outcomes": "recorded_at"}
"""Columns with the time of the newest record of a log."""
STATE: Final = ("response", "cost", "amount", "observed_at", "recorded_at", "misdated")
"""Columns of an outcome that a correction replaces."""


@dataclass(frozen=True, eq=False)
class ServedLog:
    """The rows of a log in the order of recording; columns of :data:`SCHEMAS`.

    decisions and outcomes  each request once; outcomes as they were first reported
    corrections             each event once; a request may have several
    skipped                 rows of each kind that were left out at the beginning
    newest                  time of the newest decision or outcome of the folder, where decisions were chosen
    """

    decisions: pd.DataFrame
    outcomes: pd.DataFrame
    corrections: pd.DataFrame
    skipped: Mapping[RowKind, int] = field(default_factory=dict)
    newest: datetime | None = None

    @property
    def corrected(self) -> pd.DataFrame:
        """The outcomes as they stand now: response, cost and dates by the newest correction of each.

        The amount is that of the newest report with one, and none where there is no response.
        """
        newest = self.corrections.drop_duplicates("request_id", keep="last").set_index("request_id")
        outcomes = self.outcomes.copy()
        rows = outcomes["request_id"].isin(newest.index)
        for name in outcomes.columns.intersection(list(STATE)):
            if name != "amount":
                outcomes.loc[rows, name] = newest[name].loc[outcomes.loc[rows, "request_id"]].to_numpy()
        if {"amount", "response"} <= set(outcomes.columns):
            stated = self.corrections.dropna(subset="amount").drop_duplicates("request_id", keep="last")
            changed = outcomes["request_id"].map(stated.set_index("request_id")["amount"]).astype(WHOLE)
            outcomes["amount"] = changed.fillna(outcomes["amount"]).where(outcomes["response"] > 0)
        return outcomes


def read_log(
    folder: str | Path,
    skip: Mapping[RowKind, int] | None = None,
    *,
    columns: Mapping[RowKind, Sequence[str]] | None = None,
    where: Any = None,
) -> ServedLog:
    """Read a log, without its first ``skip`` rows of each kind. O(rows read) memory; skipped segments stay closed.

    Args:
        folder: of the log.
        skip: rows of each kind to leave out.
        columns: kind → columns to read beside :data:`KEYS`; a kind that is missing is not read and has no rows. Every
            column of every kind if left out.
        where: Arrow expression on ``columns`` of the decisions to choose, with their outcomes and corrections. It needs
            one segment and the chosen rows in memory. ``decided_at`` must be among the columns of the decisions, and
            ``recorded_at`` among those of the outcomes.

    Raises:
        NotFound: no such folder.
        InvalidTable: a segment is missing between others, is damaged, or holds other rows than its name states.
    """
    place = Path(folder)
    if not place.is_dir():
        raise NotFound(f"there is no decision log in {place}")
    skipped, times = dict(skip or {}), list[datetime]()
    frames: dict[str, pd.DataFrame] = {}
    rows = where
    for kind, schema in SCHEMAS.items():
        if columns is not None and kind not in columns:
            frames[kind] = schema.empty_table().to_pandas()
            continue
        names = schema.names if columns is None else list(dict.fromkeys((*KEYS[kind], *columns[kind])))
        tables = tables_after(place, kind, skipped.get(kind, 0), names)
        if where is not None:
            tables = _chosen(tables, rows, TIMES.get(kind), times)
        whole = pa.concat_tables([pa.schema(schema.field(name) for name in names).empty_table(), *tables])
        if kind == "decisions" and where is not None:
            rows = pc.field("request_id").isin(whole["request_id"].combine_chunks())
        frames[kind] = _once(whole.to_pandas(), kind)
        del whole
        # Arrow keeps what it frees, and the work on the frames needs memory outside of it.
        pa.default_memory_pool().release_unused()
    return ServedLog(**frames, skipped=skipped, newest=max(times, default=None))


def _chosen(tables: Iterator[Any], rows: Any, time: str | None, times: list[datetime]) -> Iterator[Any]:
    """Chosen rows of each table; adds the newest time of all its rows to ``times``."""
    for table in tables:
        if time is not None and table.num_rows:
            times.append(pc.max(table[time]).as_py())
        yield table.filter(rows)


def read_parts(folder: str | Path) -> Iterator[ServedLog]:
    """Read a log a segment at a time, as logs of the rows of that segment. Memory of one segment, a million rows.

    Raises:
        NotFound, InvalidTable: as :func:`read_log`.
    """
    place = Path(folder)
    if not place.is_dir():
        raise NotFound(f"there is no decision log in {place}")
    empty = {kind: schema.empty_table().to_pandas() for kind, schema in SCHEMAS.items()}
    for kind in SCHEMAS:
        for table in tables_after(place, kind, 0):
            yield ServedLog(**(empty | {kind: table.to_pandas()}))


def final(log: ServedLog, decided_at: pd.Series, hours: float) -> NDArray[np.bool_]:
    """Return whether each decision, by its time, is at least ``hours`` older than the newest record of the log, (N,).

    The rule looks at the time of the decision alone: to keep early outcomes of young requests would count responses
    and not their absence.
    """
    newest = log.newest or max([decided_at.max(), *log.outcomes["recorded_at"].nlargest(1)])
    return np.asarray(decided_at <= newest - timedelta(hours=hours))


def of_treatable(log: ServedLog, campaign: Campaign) -> ServedLog:
    """Return the log without the decisions on accounts in the holdout of the company, which has ``arm``.

    No other campaign treats these accounts either, so their responses are no baseline of this campaign alone. Requests
    from before the holdout are left out too: an analysis by assigned accounts has none of these accounts.
    """
    held = (log.decisions["arm"] == COMPANY).to_numpy()
    if campaign.holdout is not None:
        code, names = pd.factorize(log.decisions["account_id"])
        held |= campaign.holdout.holds(names.tolist())[code]
    return replace(log, decisions=log.decisions[~held].reset_index(drop=True)) if held.any() else log


EXPOSED: Final[Mapping[RowKind, tuple[str, ...]]] = {
    "decisions": (
        *("request_id", "account_id", "side", "level", "decided_at"),
        *("propensity", "model_version", "price_version", "reason"),
    ),
    "outcomes": ("request_id", "side", *STATE),
    "corrections": ("request_id", *STATE),
}
"""Columns of the log that :func:`exposure_and_outcome` reads."""


def exposure_and_outcome(log: ServedLog, campaign: Campaign) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The log as the canonical tables ``exposure`` and ``outcome``, outcomes as corrected.

    An offer's id is that of the answer. Requests that were given nothing at all are not exposures. ``exploration``
    tells whether the level was drawn. The ledger receives a merchant's response as a ratio, not as the counts that the
    table holds, so a merchant's outcome is not mature there; judge merchants by ``response`` of the log itself. A date
    that cannot be right is replaced by that of recording, and none lies before the decision.

    Raises:
        InvalidTable: the log has a side or a level that the campaign does not have.
    """
    decisions = log.decisions[log.decisions["level"] >= 0].reset_index(drop=True)
    exposure = pd.DataFrame(
        {
            "request_id": decisions["request_id"],
            "account_id": decisions["account_id"],
            "side": decisions["side"],
            "offer_id": _offer_ids(decisions, campaign),
            "decided_at": decisions["decided_at"],
            "propensity": decisions["propensity"],
            "policy_version": decisions["model_version"],
            "price_version": decisions["price_version"].astype(WHOLE),
            "exploration": (decisions["reason"] == "explored").astype(FLAG),
        }
    )
    corrected = log.corrected
    outcomes = corrected[corrected["request_id"].isin(exposure["request_id"])].reset_index(drop=True)
    customer = outcomes["side"] == "customer"
    observed = outcomes["observed_at"].mask(outcomes["misdated"], outcomes["recorded_at"])
    decided = outcomes["request_id"].map(exposure.set_index("request_id")["decided_at"])
    outcome = pd.DataFrame(
        {
            "request_id": outcomes["request_id"],
            "observed_at": observed.mask(observed < decided, decided),
            "mature": customer.astype(FLAG),
            "cost_paid": outcomes["cost"].astype(WHOLE),
            "redeemed": outcomes["response"].where(customer).astype(WHOLE),
            "amount": outcomes["amount"],
        }
    )
    return exposure, outcome


def _offer_ids(decisions: pd.DataFrame, campaign: Campaign) -> pd.Series:
    ids = {(str(side), level): name for side, names in campaign.offer_ids.items() for level, name in enumerate(names)}
    pairs = list(zip(decisions["side"], decisions["level"], strict=True))
    unknown = sorted(set(pairs) - set(ids))
    if unknown:
        side, level = unknown[0]
        reason = f"campaign {campaign.name!r} has no level {level} of side {side!r}"
        raise InvalidTable(reason, field="decisions.side" if side not in campaign.sides else "decisions.level")
    return pd.Series([ids[pair] for pair in pairs], dtype=object)


def _once(frame: pd.DataFrame, kind: RowKind) -> pd.DataFrame:
    if "amount" in frame:
        # Arrow makes floats of integers beside none.
        frame = frame.astype({"amount": WHOLE})
    again = frame.duplicated(list(KEYS[kind]))
    # Nearly always there is none, and leaving rows out copies all others.
    return frame[~again].reset_index(drop=True) if again.any() else frame
