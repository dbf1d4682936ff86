"""Figures of a surrogate index, and the sentences that go with every value that it predicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from shadowprice.currency import Currency
from shadowprice.evaluation.statistics.intervals import Estimate

DIFFERS = 0.05
"""p-value below which the early outcomes do not explain the effect of the levels."""


@dataclass(frozen=True, kw_only=True)
class LongTermFigures:
    """Result of learning a surrogate index; effects are those of each level over the lowest, minor units a request.

    late, early  names of the outcomes
    rows         number of rows learned from; accounts likewise
    explained    share of the variance of the late outcome that the index explains
    effects      (J − 1) by the index, of all rows that are not held out
    learned      (J − 1) by the index, of the learned rows; None of a level that these lack, or without the lowest
    observed     (J − 1) of the late outcome itself, of the same rows; likewise
    p_value      of no effect of the levels beyond the early outcomes; None where the learned rows cannot tell
    worthless    levels whose responses are worth no more than none
    relative     (J, J) covariance of the relative errors of the values of responses to each level, by that of the
                 index; empty where an older training left it out
    """

    late: str
    early: tuple[str, ...]
    rows: int
    accounts: int
    explained: float
    effects: tuple[Estimate, ...]
    learned: tuple[Estimate | None, ...]
    observed: tuple[Estimate | None, ...]
    p_value: float | None
    worthless: tuple[int, ...] = ()
    relative: tuple[tuple[float, ...], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; :meth:`from_dict` is the inverse."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LongTermFigures:
        """Read what :meth:`to_dict` gave."""
        effects = {
            name: tuple(None if one is None else Estimate(**one) for one in data[name])
            for name in ("effects", "learned", "observed")
        }
        lists = {name: tuple(data[name]) for name in ("early", "worthless")}
        relative = tuple(map(tuple, data.get("relative", ())))
        return cls(**{**data, **effects, **lists, "relative": relative})

    @property
    def fails(self) -> bool:
        """Return whether the learned rows contradict the index."""
        return self.p_value is not None and self.p_value < DIFFERS

    def sentences(self, names: Sequence[str], currency: Currency) -> Iterator[str]:
        """Yield what a page says of the index.

        Args:
            names: (J,) of the levels.
            currency: of the amounts.
        """
        early = ", ".join(("the response", *self.early))
        yield (
            f"Values are long-term value ({self.late}), predicted by a surrogate index learned on {self.rows:,} rows "
            f"of {self.accounts:,} accounts from {early}. They are not measured. The index explains "
            f"{100 * self.explained:.0f} % of the variance of {self.late}."
        )
        for name, effect in zip(names[1:], self.effects, strict=True):
            yield (
                f"By the index, {name} changes the long-term value of a request by {written(effect, currency)} against "
                f"{names[0]}; the interval includes the error of the index."
            )
        for name, learned, observed in zip(names[1:], self.learned, self.observed, strict=True):
            if learned is not None and observed is not None:
                yield (
                    f"Learned rows, {name} against {names[0]}: {self.late} differs by {written(observed, currency)}, "
                    f"the index by {written(learned, currency)}."
                )
        if self.p_value is None:
            yield "The learned rows cannot check the index: they have one level, or too few accounts."
        elif self.fails:
            yield (
                f"Warning: levels change {self.late} beyond the early outcomes (p = {self.p_value:.2g}). Do not decide "
                "by this index: name more early outcomes, or wait for the late one."
            )
        else:
            yield (
                f"Levels show no effect on {self.late} beyond the early outcomes (p = {self.p_value:.2g}). No data can "
                "prove that there is none, nor that later rows are like the learned ones."
            )
        for level in self.worthless:
            yield (
                f"Warning: by the index, responses to {names[level]} are worth no more than no response. They count as "
                "nothing."
            )


def written(found: Estimate, currency: Currency) -> str:
    """Return an amount of minor units with its interval."""
    value, low, high = (currency.write(amount) for amount in (found.value, found.low, found.high))
    return f"{value} [{low}, {high}]"
