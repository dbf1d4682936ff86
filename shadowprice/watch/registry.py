"""Checks by name."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import pandas as pd

from shadowprice.watch.calibration import calibration
from shadowprice.watch.curve_shape import curve_shape
from shadowprice.watch.finding import Finding
from shadowprice.watch.label_drift import label_drift
from shadowprice.watch.reference import Reference
from shadowprice.watch.stability import stability

CHECKS: Mapping[str, Callable[[pd.DataFrame, Reference], list[Finding]]] = MappingProxyType(
    {"calibration": calibration, "label_drift": label_drift, "stability": stability, "curve_shape": curve_shape}
)


def check_all(rows: pd.DataFrame, reference: Reference) -> list[Finding]:
    """Return the findings of all checks on the table of :func:`shadowprice.watch.rows.watched_rows`."""
    return [finding for check in CHECKS.values() for finding in check(rows, reference)]
