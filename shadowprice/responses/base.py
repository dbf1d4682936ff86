"""Interface of every response model."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from shadowprice.campaign import Side
from shadowprice.checks import refuse_rows, require
from shadowprice.curves import AMOUNT, Curves, check_levels
from shadowprice.limits import OUTCOME
from shadowprice.responses.inputs import Inputs
from shadowprice.responses.layers.session import ServedSession
from shadowprice.responses.state import State, save_state

RESERVED = (
    "account_id",
    "level",
    "response",
    "cost",
    "clicked",
    AMOUNT,
    "amount_least",
    "amount_most",
    "paid",
    "propensity",
    "weight",
    "balancing_weight",
    "exploration",
    "partner_id",
    "cluster",
    "snapshot_at",
    "session_id",
)
"""Columns of a training frame that are not features.

``cost`` is the cost of the row and ``amount`` the value of its conversion, minor units, which lies between
``amount_least`` and ``amount_most`` where it was not logged; ``paid`` is what was paid; ``clicked`` comes before a
conversion; ``exploration`` says whether the level was drawn at random.
``weight`` is the row's own; ``balancing_weight`` is the stabilized inverse of its propensity, which replaces the
propensity (:func:`shadowprice.responses.weights.row_weights`).
``session_id`` names a session of the log that models of vouchers read.
"""
FILE = "response.safetensors"
HELD_OUT = 0.15
"""Share of accounts kept for early stopping (S0: 85 % of entities train, 15 % validate)."""


class ResponseModel(ABC):
    """Model of the responses of one side's accounts at each incentive level, learned from labeled requests.

    monotone    the curve never falls as the incentive rises, for any weights
    calibrated  the response is a probability or an expectation, not only a score
    ordered     the levels have an order the model uses; without one, several offers may have the same amount
    binary      a customer's response is 0 or 1; a merchant's is a ratio in any case
    by_gradient  it is trained by gradient steps, which several processes can share
    personal    accounts have curves of their own; without, there is one curve for all
    amounts     it learns the amounts of responses where a frame has them
    sides       the sides of the market whose response it can learn
    needs       names of the :class:`~shadowprice.responses.inputs.Inputs` without which it cannot be fitted

    ``name`` and ``options`` are set by :func:`~shadowprice.responses.registry.make`; ``side``, the first of
    ``sides``, by a constructor that takes it; ``given``, the inputs beside the frames, may be replaced by later ones
    before asking for curves.
    """

    monotone: ClassVar[bool] = False
    calibrated: ClassVar[bool] = True
    ordered: ClassVar[bool] = True
    binary: ClassVar[bool] = True
    by_gradient: ClassVar[bool] = False
    personal: ClassVar[bool] = True
    amounts: ClassVar[bool] = False
    sides: ClassVar[tuple[Side, ...]] = ("customer",)
    needs: ClassVar[tuple[str, ...]] = ()

    def __init__(self, levels: Sequence[int], seed: int = 0) -> None:
        self.levels = check_levels(levels, ordered=type(self).ordered)
        self.seed = seed
        self.side: Side = self.sides[0]
        self.name = ""
        self.options: Mapping[str, Any] = {}
        self.given = Inputs()

    @property
    def with_amounts(self) -> bool:
        """Return whether the fitted model's curves have the amounts of responses."""
        return False

    @abstractmethod
    def fit(self, frame: pd.DataFrame) -> Self:
        """Learn from rows with account_id, level (index), response [, propensity, weight, features x_* and c_*]."""

    @abstractmethod
    def curve(self, frame: pd.DataFrame) -> Curves:
        """Curves (J, N) of the N rows of ``frame``: account_id and the features; no labels needed."""

    def cost(self, frame: pd.DataFrame) -> NDArray[np.float32]:
        """Expected cost (J, N) of granting each level to the rows of ``frame``, minor units.

        The level itself, unless the model has learned the cost from a column ``cost``.
        """
        paid = self.levels.astype(np.float32)[:, None]
        return np.ascontiguousarray(np.broadcast_to(paid, (self.levels.size, len(frame))))

    def figures(self) -> dict[str, float]:
        """Losses and epochs of the last training; none of a model that does not count them."""
        return {}

    def served_session(self, frame: pd.DataFrame) -> tuple[NDArray[np.float32], ServedSession] | None:
        """Return what a session is read with: float32 (n, P) of each row's account, and the network.

        None of a model whose curve no session of a request moves.
        """
        del frame
        return None

    @abstractmethod
    def state(self) -> State:
        """Everything that :meth:`fit` learned: arrays by name, and the rest as JSON types.

        Raises:
            InvalidInput: the model is not fitted.
        """

    @abstractmethod
    def restore(self, state: State) -> None:
        """Become the model that gave ``state``; levels, seed and options are those of the constructor."""

    def save(self, folder: Path) -> None:
        """Write the fitted model to ``folder``; :func:`shadowprice.responses.load` reads it.

        Options that are JSON types are kept; others, and the inputs, are given again to ``load``.
        """
        require(self.name, "model", "only a model made by name can be saved; use shadowprice.responses.make")
        state = self.state()
        own = {
            "name": self.name,
            "levels": self.levels.tolist(),
            "seed": self.seed,
            "options": {key: value for key, value in self.options.items() if _is_json(value)},
            "fitted": dict(state.meta),
        }
        save_state(State(state.arrays, own), folder / FILE)

    def check_frame(self, frame: pd.DataFrame) -> None:
        """Refuse a training frame that lacks a column or has impossible levels or responses, and missing inputs."""
        self.given.require(self.needs, self.name)
        for column in ("account_id", "level", "response"):
            require(column in frame, column, "is missing from the training frame")
        for column in frame.columns:
            read = column in RESERVED or column.startswith(("x_", "h_", "c_", OUTCOME))
            unread = "is not read: name features x_… where they are numbers and c_… where they are categories"
            require(read, str(column), unread)
        require(len(frame), "frame", "there is no training row")
        outside = ~frame["level"].isin(range(self.levels.size))
        refuse_rows("level", outside, f"must be an index into the {self.levels.size} levels")
        refuse_rows("account_id", frame["account_id"].isna(), "must be known")
        if "exploration" in frame:
            refuse_rows("exploration", ~frame["exploration"].isin([True, False]), "must be true or false")
        for column in ("cost", "response"):
            if column in frame:
                refuse_rows(column, ~np.isfinite(frame[column].astype(float)), "must be known and finite")
        if self.binary and self.side == "customer":
            neither = ~frame["response"].astype(float).isin((0.0, 1.0))
            refuse_rows("response", neither, "must be 0 or 1 on the side of customers")
        if "propensity" in frame:
            probability = frame["propensity"].astype(float)
            wrong = ~((probability > 0) & (probability <= 1))
            if "exploration" in frame:
                # Nobody knows how likely a level was that was not drawn.
                wrong &= frame["exploration"].astype(bool)
            refuse_rows("propensity", wrong, "must be in (0, 1]")
        for column in ("weight", "balancing_weight"):
            if column in frame:
                weight = frame[column].astype(float)
                refuse_rows(column, ~(np.isfinite(weight) & (weight >= 0)), "must be finite and not negative")
        for column in frame.columns:
            if column.startswith(("x_", "h_")):
                number = is_numeric_dtype(frame[column]) or frame[column].isna().all()
                require(number, column, "must hold numbers; name categories c_…")
                values = frame[column].to_numpy(dtype=np.float64, na_value=np.nan)
                refuse_rows(column, np.isinf(values), "must be finite, or missing where unknown")


def labels(frame: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Level and response (n,) of labeled rows."""
    return frame["level"].to_numpy(dtype=np.int64), frame["response"].to_numpy(dtype=np.float64)


def row_amounts(frame: pd.DataFrame) -> NDArray[np.float64]:
    """Amount (n,) of a unit of the response of labeled rows, minor units, 0 where there was none.

    Raises:
        InvalidInput: a row that responded has no amount above 0, or there is no column of amounts.
    """
    require(AMOUNT in frame, AMOUNT, "is missing: the amounts of responses are to be learned")
    hit = frame["response"].to_numpy(dtype=np.float64) > 0
    amount = frame[AMOUNT].to_numpy(dtype=np.float64, na_value=np.nan)
    wrong = hit & ~((amount > 0) & np.isfinite(amount))
    refuse_rows(AMOUNT, wrong, "must be known, finite and above 0 where there was a response")
    return np.where(hit, amount, 0.0)


def held_out(frame: pd.DataFrame, share: float, seed: int) -> NDArray[np.bool_]:
    """Rows (n,) of a ``share`` of the accounts: of one at least, never of all.

    Raises:
        InvalidInput: there is one account.
    """
    accounts, of = np.unique(frame["account_id"].to_numpy(dtype=str), return_inverse=True)
    require(accounts.size > 1, "account_id", "needs at least two accounts: some are held out to stop by")
    held = np.random.default_rng(seed).random(accounts.size) < share
    if held.all() or not held.any():
        held[0] = not held[0]
    return np.asarray(held[of])


def at_level(curves: Curves, level: NDArray[np.int64]) -> NDArray[np.float64]:
    """Response (n,) of each row's curve at its own level."""
    return curves.response[level, np.arange(level.size)].astype(np.float64)


def _is_json(value: Any) -> bool:
    try:
        return bool(json.loads(json.dumps(value)) == value) or isinstance(value, tuple)
    except (TypeError, ValueError):
        return False
