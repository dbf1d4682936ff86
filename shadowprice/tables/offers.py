"""Offers of a side in the order of its levels."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from pandas.api.typing import NAType

from shadowprice.campaign import SIDES, Percent, Side
from shadowprice.checks import require
from shadowprice.tables.database import Tables
from shadowprice.tables.rules import FUND, VOUCHER

Order = Literal["face_value", "order_index", "none", "funds", "vouchers"]
"""Origin of the order of a side's levels; ``none``: the control is first, and the others stand by identifier;
``vouchers``: offers without an order that stand by discount, which is their level too."""


@dataclass(frozen=True)
class Offered:
    """J offers of a side; the place of each is its level.

    ids      identifiers
    order    origin of their order
    amounts  face values, minor units; 0 of an offer without one
    costs    units of the budget that each takes: its own cost, or its face value
    percent  share and least spend of each offer in percent, whose face value is its cap; None of another
    least_spends, valid_hours  of each voucher that is not in percent, and of each offer; 0: any, and unknown
    """

    ids: tuple[str, ...]
    order: Order
    amounts: tuple[int, ...]
    costs: tuple[int, ...]
    percent: tuple[Percent | None, ...]
    least_spends: tuple[int, ...]
    valid_hours: tuple[int, ...]

    def terms(self) -> dict[str, Any]:
        """Return the fields of :class:`~shadowprice.campaign.Terms` that follow from the offers."""
        numbers = tuple(range(len(self.ids)))
        if self.order == "funds":
            return {"levels": numbers}
        by_amount = self.order == "face_value"
        return {
            "levels": self.amounts if by_amount or self.order == "vouchers" else numbers,
            "offers": self.ids,
            "ordered": self.order not in ("none", "vouchers"),
            "amounts": () if by_amount else self.amounts,
            "costs": () if self.costs == self.amounts else self.costs,
            "percent": self.percent if any(self.percent) else (),
            "least_spends": self.least_spends if any(self.least_spends) else (),
            "valid_hours": self.valid_hours if any(self.valid_hours) else (),
        }


def offers_of(tables: Tables, side: Side) -> Offered:
    """Return the offers of a side, which may have none. The tables are checked, so that the order is one.

    Raises:
        InvalidInput: there is no such side.
    """
    require(side in SIDES, "side", f"must be one of {SIDES}, got {side!r}")
    own = tables.offer[tables.offer["side"] == side]
    face, said = own["face_value"].astype("Int64"), tables.campaign[f"ordered_{side}"].iloc[0]
    amount = face.fillna(0).to_numpy(dtype=np.int64)
    cost = own["cost"].astype("Int64").fillna(face).fillna(0).to_numpy(dtype=np.int64)
    number = own["order_index"].to_numpy(dtype=np.float64, na_value=np.inf)
    order, keys = _order(own, said), [number]
    if order in ("face_value", "vouchers"):
        keys = [own["offer_id"].to_numpy(dtype=str), amount]
    elif order == "none":
        keys = [own["offer_id"].to_numpy(dtype=str), cost > min(cost, default=0), number]
    place = np.lexsort(keys)
    ids, amounts, costs = (column[place].tolist() for column in (own["offer_id"].to_numpy(dtype=object), amount, cost))
    least, hours = (own[name].astype("Int64").fillna(0).iloc[place].tolist() for name in ("min_spend", "valid_hours"))
    shares = list(zip(own["percent"].iloc[place], least, strict=True))
    percent = (None if pd.isna(share) else Percent(share=float(share), least=int(low)) for share, low in shares)
    vouchers = ((own["kind"] == VOUCHER) & own["percent"].isna()).iloc[place].tolist()
    least_spends = (int(low) if kept else 0 for kept, low in zip(vouchers, least, strict=True))
    return Offered(
        tuple(ids), order, tuple(amounts), tuple(costs), tuple(percent), tuple(least_spends), tuple(map(int, hours))
    )


def _order(own: pd.DataFrame, said: bool | NAType) -> Order:
    """Return where the order of offers comes from; ``said`` is the campaign's setting, unknown where it has none."""
    face = own["face_value"]
    if own["percent"].notna().any():
        return "order_index" if not isinstance(said, NAType) and said else "none"
    if (own["kind"] == FUND).any():
        return "funds"
    if face.notna().all() and face.is_unique and (isinstance(said, NAType) or said):
        return "face_value"
    if isinstance(said, NAType):
        return "none"
    if not said and len(own) and (own["kind"] == VOUCHER).all() and face.notna().all():
        return "vouchers"
    return "order_index" if said else "none"
