"""Gradient-boosted trees (LightGBM) as a response model: the ranking to beat on tabular features.

Trees see the incentive's amount as one more feature, with a monotone constraint on it, so no curve
falls. On data whose levels were not randomized that slope is still confounded; see the effect step
of :mod:`shadowprice.responses.repair.repair`.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self, get_args

import lightgbm
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.campaign import Side
from shadowprice.checks import require, require_one_of
from shadowprice.curves import AMOUNT, Curves
from shadowprice.graphs.categories import texts
from shadowprice.responses.base import HELD_OUT, RESERVED, ResponseModel, row_amounts
from shadowprice.responses.state import State
from shadowprice.responses.tabular.boosting import AmountTrees, Boosting, as_bytes, from_bytes
from shadowprice.responses.weights import row_weights

LevelFeature = Literal["monotone", "free", "none"]

MODEL = "trees"


class GbdtModel(ResponseModel):
    """Binary log loss for customers, squared error for merchants; stopped early on 15 % of the accounts.

    Options:
        side: which side the rows are of.
        level: ``monotone``: the response never falls in the amount; ``free``: no constraint; ``none``: trees do
            not see the amount and every curve is flat, for the effect step of a repair to give it a slope.
        partner: whether the partner (``partner_id``) is read as a category; by default where rows name one.
        trees, learning_rate, leaf_rows, patience: of the boosting.

    Where the training frame has amounts, further trees learn their log-normal law from the rows that responded.

    Features are the columns x_* and h_* as numbers, missing ones as such, and c_* as native
    categories; a category that was not in the training frame counts as missing.
    Source: Ke et al. (2017).
    """

    monotone: ClassVar[bool] = True
    # Trees read the amount as a number: offers of one amount are one to them.
    ordered: ClassVar[bool] = False
    amounts: ClassVar[bool] = True
    sides: ClassVar[tuple[Side, ...]] = ("customer", "merchant")

    def __init__(
        self,
        levels: Sequence[int],
        seed: int = 0,
        *,
        side: Side = "customer",
        level: LevelFeature = "monotone",
        partner: bool | None = None,
        trees: int = 2000,
        learning_rate: float = 0.05,
        leaf_rows: int = 100,
        patience: int = 50,
    ) -> None:
        super().__init__(levels, seed)
        require_one_of(level, get_args(LevelFeature), "level")
        self.side = side
        self.level = level
        self.monotone = level != "free"  # type: ignore[misc]
        self.partner = partner
        self.trees = trees
        self.patience = patience
        self.parameters: dict[str, Any] = {
            "objective": "binary" if side == "customer" else "regression",
            "learning_rate": learning_rate,
            "num_leaves": 31,
            "min_data_in_leaf": leaf_rows,
            "feature_fraction": 0.7,
            "bagging_fraction": 0.8,
            "bagging_freq": 1,
            "seed": seed,
            "deterministic": True,
            "force_row_wise": True,
            "verbose": -1,
        }
        self.columns: list[str] = []
        self.categories: dict[str, list[str]] = {}
        self.booster: lightgbm.Booster | None = None
        self.amount_trees: AmountTrees | None = None

    def fit(self, frame: pd.DataFrame) -> Self:
        """Boost until the loss of the held-out accounts has not fallen for ``patience`` trees."""
        self.check_frame(frame)
        named = [str(c) for c in frame.columns if c not in RESERVED and str(c).startswith(("x_", "h_", "c_"))]
        named_partner = "partner_id" in frame and bool(frame["partner_id"].notna().any())
        partner = named_partner if self.partner is None else self.partner
        categories = [c for c in named if c.startswith("c_")] + (["partner_id"] if partner else [])
        missing = "is read as a category and is missing from the training frame"
        require(named_partner or not partner, "partner_id", missing)
        self.columns = [c for c in named if not c.startswith("c_")] + categories
        self.categories = {c: sorted(texts(frame[c]).dropna().unique().tolist()) for c in categories}
        features = self._features(frame)
        if self.level != "none":
            amount = self.levels[frame["level"].to_numpy(dtype=np.int64)].astype(np.float64)
            features = np.column_stack([features, amount])
        if features.shape[1] == 0:
            # Trees need something to split; a constant is split nowhere and leaves the mean.
            features = np.zeros((len(frame), 1))
        names = self._names(features.shape[1])
        parameters = dict(self.parameters)
        if self.level == "monotone":
            parameters |= {
                "monotone_constraints": [int(name == AMOUNT) for name in names],
                # "advanced" lets curves fall where a feature is missing or a category (LightGBM 4.7).
                "monotone_constraints_method": "basic",
            }
        accounts, of = np.unique(frame["account_id"].to_numpy(dtype=str), return_inverse=True)
        outside = (np.random.default_rng(self.seed).random(accounts.size) < HELD_OUT)[of]
        outside &= not outside.all()
        categories = [name for name in names if name in self.categories]
        boosting = Boosting(parameters, names, categories, self.trees, self.patience)
        y = frame["response"].to_numpy(dtype=np.float64)
        weight = row_weights(frame, self.levels.size)
        self.booster = boosting.fit(features, y, weight, outside)
        if AMOUNT in frame and "amount_least" not in frame:
            amount = row_amounts(frame)
            hit = amount > 0
            require(hit.any(), AMOUNT, "no training row has one")
            # A row counts as often as it has units of response: the mean amount of all units is wanted.
            units = weight[hit] * y[hit]
            self.amount_trees = AmountTrees.fit(boosting, features[hit], amount[hit], units, outside[hit])
        return self

    def curve(self, frame: pd.DataFrame) -> Curves:
        """Curves (J, N) of the rows. O(J · N · trees · depth)."""
        booster = self._fitted()
        features = self._features(frame)
        out = np.empty((self.levels.size, len(frame)), dtype=np.float32)
        amounts = None if self.amount_trees is None else np.empty((2, *out.shape), dtype=np.float32)
        for j, amount in enumerate(self.levels):
            if j and self.level == "none":
                out[j] = out[0]
                if amounts is not None:
                    amounts[:, j] = amounts[:, 0]
                continue
            columns = [features] if self.level == "none" else [features, np.full((len(frame), 1), float(amount))]
            table = np.column_stack(columns)
            table = table if table.shape[1] else np.zeros((len(frame), 1))
            predicted = booster.predict(table)
            out[j] = np.clip(predicted, 0.0, 1.0) if self.side == "customer" else np.maximum(predicted, 0.0)
            if amounts is not None and self.amount_trees is not None:
                amounts[:, j] = self.amount_trees.law(table)
        return Curves(self.levels, out, amounts=amounts)

    def state(self) -> State:
        """LightGBM's text model, and the features it reads."""
        arrays = {MODEL: as_bytes(self._fitted())}
        meta: dict[str, Any] = {"columns": self.columns, "categories": self.categories}
        if self.amount_trees is not None:
            arrays[AMOUNT] = as_bytes(self.amount_trees.booster)
            meta["deviation"] = self.amount_trees.deviation
        return State(arrays, meta)

    def restore(self, state: State) -> None:
        """Become the model that gave ``state``."""
        self.columns, self.categories = list(state.meta["columns"]), dict(state.meta["categories"])
        self.booster = from_bytes(state.arrays[MODEL])
        if AMOUNT in state.arrays:
            self.amount_trees = AmountTrees(from_bytes(state.arrays[AMOUNT]), float(state.meta["deviation"]))

    @property
    def with_amounts(self) -> bool:
        """Return whether the training frame had amounts."""
        return self.amount_trees is not None

    def _fitted(self) -> lightgbm.Booster:
        require(self.booster is not None, "model", "fit the model before asking for curves")
        return self.booster

    def _features(self, frame: pd.DataFrame) -> NDArray[np.float64]:
        out = np.full((len(frame), len(self.columns)), np.nan)
        for at, name in enumerate(self.columns):
            if name not in frame:
                continue
            if name in self.categories:
                codes = pd.Categorical(texts(frame[name]).astype(object), categories=self.categories[name]).codes
                out[:, at] = np.where(codes < 0, np.nan, codes)
            else:
                out[:, at] = frame[name].to_numpy(dtype=np.float64)
        return out

    def _names(self, width: int) -> list[str]:
        names = [*self.columns, *([AMOUNT] if self.level != "none" else [])]
        # LightGBM refuses some characters in names, such as those of an indicator's category.
        return [name if name in self.categories or name == AMOUNT else f"f{n}" for n, name in enumerate(names)] or [
            f"f{n}" for n in range(width)
        ]
