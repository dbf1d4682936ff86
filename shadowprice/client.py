"""Clients of a running campaign: decisions of its predictor, and outcomes and totals of its ledger.

``DecisionClient`` returns ``Decisions``; ``LedgerClient`` sends ``Outcome`` and ``Correction``. The extra ``serve`` has
what they need.

The clients lie beside the services, outside of the library. An installed wheel keeps those folders in
``shadowprice/_platform``; the first use of a name appends this folder to ``sys.path``, behind everything else.

>>> from shadowprice.client import DecisionClient
>>> with DecisionClient("http://localhost:8080", "spring") as predictor:  # doctest: +SKIP
...     predictor.decide(["r1"], ["a1"], ["customer"]).incentive
"""

import sys
from importlib import import_module
from pathlib import Path

from shadowprice.errors import MissingExtra

_NAMES = ("Correction", "DecisionClient", "Decisions", "LedgerClient", "Outcome")
__all__ = [*_NAMES]


def __getattr__(name: str) -> object:
    if name not in _NAMES:
        raise AttributeError(f"module 'shadowprice.client' has no attribute {name!r}; it offers {', '.join(_NAMES)}")
    folder = str(Path(__file__).resolve().with_name("_platform"))
    if Path(folder).is_dir() and folder not in sys.path:
        sys.path.append(folder)
    try:
        value = globals()[name] = getattr(import_module("serving.client.client"), name)
    except ModuleNotFoundError as error:
        raise MissingExtra(f"clients need {error.name}: pip install 'shadowprice[serve]'") from error
    return value
