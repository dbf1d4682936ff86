"""shadowprice: spend an incentive budget well, at the price of money that makes the budget bind.

The ten names of a first program are here: a campaign, models of response, the price, the decision and the experiment.
Each is imported at its first use, so ``import shadowprice`` loads nothing else.

>>> import numpy as np
>>> import shadowprice as sp
>>> response = np.array([[0.1, 0.3], [0.4, 0.5]], dtype=np.float32)  # two levels, two accounts
>>> found = sp.solve(sp.Problem(response, [sp.Resource.total("coupons", np.array([0.0, 10.0]), limit=10)]))
>>> found.status, found.level.tolist()
('optimal', [1, 0])
"""

from importlib import import_module

__version__ = "0.1.0"

_HOMES = {
    "Campaign": "campaign",
    "Curves": "curves",
    "Problem": "allocation",
    "Resource": "allocation",
    "on_response": "allocation",
    "solve": "allocation",
    "decide": "decision",
    "make": "responses",
    "lift": "experiments",
    "plan": "experiments",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'shadowprice' has no attribute {name!r}; it offers {', '.join(_HOMES)}")
    value = globals()[name] = getattr(import_module(f"shadowprice.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
