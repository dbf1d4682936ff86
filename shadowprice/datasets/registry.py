"""Data sets by name. A data set is a converter to the canonical tables; what follows reads only those."""

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shadowprice.datasets.split import Split
from shadowprice.errors import InvalidInput, NotFound
from shadowprice.tables import SessionTables, Tables
from shadowprice.tables.database import Source

_LOADERS = {
    "world": "shadowprice.datasets.world:load",
    "tables": "shadowprice.datasets.folder:load",
    "mapping": "shadowprice.datasets.mapping:load",
    "o2o": "shadowprice.datasets.o2o:load",
    "thornton": "shadowprice.datasets.thornton:load",
    "promotion": "shadowprice.datasets.promotion:load",
    "funds": "shadowprice.datasets.fund_tables:load",
    "vouchers": "shadowprice.datasets.vouchers:load",
}
"""Name → ``module:function``, imported when asked for. A function takes (data, *, seed, **options)."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Tables with the split they are to be judged by.

    confounders  side → columns of its requests whose crossing holds the reasons for an incentive's
           value fixed, the most general first; none where the value was randomized
    currency  ISO 4217 code of the money
    truth  account_id, side, level, response: the true expected response at each level, where known; a frame or a
           Parquet file
    notes  facts for a reader of the report: source, and what was dropped, fitted or assumed
    sessions  voucher sessions, where these are the data set: ``tables`` are then their requests
    """

    name: str
    tables: Tables
    split: Split
    truth: Source | None = None
    confounders: dict[str, list[str]] = field(default_factory=dict)
    currency: str = "USD"
    notes: dict[str, str] = field(default_factory=dict)
    sessions: SessionTables | None = None

    @property
    def about(self) -> str:
        """Input that its labeled rows are about: sessions, or empty where they are requests."""
        return "" if self.sessions is None else "sessions"


def names() -> list[str]:
    """Every data set that :func:`load` knows."""
    return list(_LOADERS)


def load(name: str, data: str | None = None, seed: int = 0, **options: Any) -> Dataset:
    """Load a data set.

    Args:
        name: one of :func:`names`.
        data: where its files are, for those that read files.
        seed: for those that are generated.
        options: what the data set's own ``load`` takes.

    Raises:
        NotFound: no such data set, or no such file.
        InvalidInput: an option that the data set does not have.
        InvalidTable: the files break the schema.
        MissingExtra: a package that the data set comes with is not installed.
    """
    return loader_of(name, options)(data, seed=seed, **options)


def loader_of(name: str, options: Mapping[str, Any]) -> Callable[..., Dataset]:
    """Return the function that loads a data set; raises as :func:`load` for its name and its options."""
    if name not in _LOADERS:
        raise NotFound(f"no data set is named {name!r}; there are {', '.join(_LOADERS)}")
    module, function = _LOADERS[name].split(":")
    loader: Callable[..., Dataset] = getattr(importlib.import_module(module), function)
    try:
        inspect.signature(loader).bind(None, seed=0, **options)
    except TypeError as error:
        raise InvalidInput(f"{error}", field=f"options of data set {name!r}") from None
    return loader
