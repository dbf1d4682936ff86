"""Inputs of models: everything that a model may read beside the rows it is asked about."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import pandas as pd

from shadowprice.campaign import Segment
from shadowprice.errors import InvalidInput
from shadowprice.graphs.sessions import SessionLog
from shadowprice.graphs.snapshot import GraphSnapshot


@dataclass(frozen=True, eq=False, kw_only=True)
class Inputs:
    """Everything that a model of a side may read beside its rows.

    snapshots   the graph at successive instants, in order of time; a row sees the latest one not after it
    sessions    voucher sessions with the graphs of what was done around them, see :meth:`SessionLog.build`
    behaviours  account_id, level, action, ts: actions on offers; a row sees those before its ``snapshot_at``
    offers      level and numbers x_* of every offer, such as the mean yearly return of a fund
    segments    of a delivery: its levels are their numbers, and a model learns what a place in each is worth

    What a model reads is registered in :data:`shadowprice.responses.registry.MODELS`.
    """

    snapshots: Sequence[GraphSnapshot] = ()
    sessions: SessionLog | None = None
    behaviours: pd.DataFrame | None = None
    offers: pd.DataFrame | None = None
    segments: tuple[Segment, ...] = ()

    @property
    def there(self) -> frozenset[str]:
        """Names of the inputs that are given."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        absent = (name for name, value in given.items() if value is None or (isinstance(value, Sequence) and not value))
        return frozenset(given) - frozenset(absent)

    def only(self, names: Collection[str]) -> Inputs:
        """Return some of the inputs."""
        empty: dict[str, Any] = {field.name: field.default for field in fields(self) if field.name not in names}
        return replace(self, **empty)

    def require(self, names: Collection[str], model: str) -> None:
        """Raise :class:`InvalidInput` where one of ``names`` is not given to the model called ``model``."""
        for name in names:
            if name not in self.there:
                told = f"is missing: model {model!r} reads it; give inputs=Inputs({name}=…) with it"
                raise InvalidInput(told, field=name)
