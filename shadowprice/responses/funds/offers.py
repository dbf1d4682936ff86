"""Offers as a network reads them: a number of its own for each delivered offer, and the features of every offer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from shadowprice.checks import refuse_rows, require
from shadowprice.documents import Plain
from shadowprice.errors import InvalidInput
from shadowprice.graphs.scaling import Scaling, fit_scaling

UNKNOWN = 0
"""Identity of an offer without a labeled delivery."""
LEARN_NEW = "fit the model with new_offers=True, so that features alone score it"


@dataclass(frozen=True, eq=False)
class OfferInputs(Plain):
    """Inputs of J offers.

    identity  int64 (J,): 1, 2, … for the offers that training has seen delivered, ``UNKNOWN`` for the others
    numeric   float32 (J, F): standardized features, F = 0 where offers have none
    scaling   standardization of the features, fitted on the delivered offers
    new       whether training hides identities, so that features alone score an unknown offer; true of older models
    """

    identity: NDArray[np.int64]
    numeric: NDArray[np.float32]
    scaling: Scaling
    new: bool = True

    @property
    def known(self) -> int:
        """Number of delivered offers."""
        return int(self.identity.max(initial=UNKNOWN))

    def of(self, offers: pd.DataFrame) -> OfferInputs:
        """Inputs of a later list of offers: those that training saw keep their numbers, further ones are unknown.

        Raises:
            InvalidInput: the list lacks an offer that training saw, has other features, or has a further offer that
                the model cannot score.
        """
        names, raw = _features(offers, len(offers))
        for name in sorted({*names} ^ {*self.scaling.names}):
            reason = "is missing; the model was fitted with it" if name not in names else "is unknown to the model"
            raise InvalidInput(reason, field=f"offers.{name}")
        fitted = len(self.identity)
        require(len(raw) >= fitted, "offers.level", f"must have the {fitted} offers of the fitted model")
        require(self.new or len(raw) == fitted, "offers.level", f"offer {fitted} is new: {LEARN_NEW}")
        identity = np.zeros(len(raw), dtype=np.int64)
        identity[: len(self.identity)] = self.identity
        return OfferInputs(identity, self.scaling.select(names, raw), self.scaling, self.new)


def fit_offers(offers: pd.DataFrame | None, delivered: NDArray[np.bool_], new: bool | None = None) -> OfferInputs:
    """Inputs of the J offers of a model.

    Args:
        offers: level (0 to J − 1, each once) and numbers x_*; None where offers have no features.
        delivered: (J,), whether training has a delivery of the offer.
        new: whether offers without a delivery are to be scored by their features; by default where there are any.

    Raises:
        InvalidInput: a column or a level of ``offers`` is wrong, or an offer has no deliveries and no features, or none
            that ``new`` lets the model learn from.
    """
    names, raw = (
        ((), np.zeros((delivered.size, 0), np.float32)) if offers is None else _features(offers, delivered.size)
    )
    scaling = fit_scaling(names, raw[delivered])
    strange = ~delivered & np.isnan(raw).all(axis=1)
    if strange.any():
        raise InvalidInput(
            f"offer {int(np.flatnonzero(strange)[0])} has neither a labeled delivery nor features, so that nothing "
            "says what it is worth; give it features x_* or leave it out",
            field="offers",
        )
    if new is False and not delivered.all():
        number = int(np.flatnonzero(~delivered)[0])
        raise InvalidInput(f"offer {number} has no labeled delivery: {LEARN_NEW}, or leave it out", field="offers")
    identity = np.where(delivered, delivered.cumsum(), UNKNOWN).astype(np.int64)
    return OfferInputs(
        identity, scaling.apply(raw), scaling, bool(names) and (not delivered.all() if new is None else new)
    )


def _features(offers: pd.DataFrame, count: int) -> tuple[tuple[str, ...], NDArray[np.float32]]:
    """Names and values (J, D) of the features, in the order of the levels."""
    require("level" in offers, "offers.level", "is missing; it numbers the offers 0, 1, …")
    once = sorted(offers["level"].tolist()) == list(range(count))
    require(once, "offers.level", f"must hold every number from 0 to {count - 1} once")
    names = tuple(str(column) for column in offers.columns if column != "level")
    for name in names:
        field = f"offers.{name}"
        require(name.startswith("x_"), field, "is not read; name the features of an offer x_…")
        require(is_numeric_dtype(offers[name]) or offers[name].isna().all(), field, "must hold numbers")
        infinite = np.isinf(offers[name].to_numpy(dtype=np.float64, na_value=np.nan))
        refuse_rows(field, infinite, "must be finite; leave it empty where it is not known")
    ordered = offers.sort_values("level")[list(names)].to_numpy(dtype=np.float32, na_value=np.nan)
    return names, ordered.reshape(count, len(names))
