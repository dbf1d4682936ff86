"""An experiment: its arms, their shares, and the arm of each unit by a salted hash.

Numpy only: offline evaluator, replay and predictor call these very functions.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from shadowprice.errors import InvalidInput
from shadowprice.groups import Groups

ArmKind = Literal["holdout", "policy", "explore"]
Unit = Literal["account", "partner", "cluster", "hour"]
HOUR = "%Y-%m-%dT%H"
"""Name of an hour as a unit."""

UNASSIGNED = "unassigned"
"""Arm of a unit that no arm has taken, and of every request of a campaign without an experiment."""

CANARY = "canary"
"""Arm of a unit that a model on trial decides for; see :mod:`shadowprice.pacing.canary`."""

WHOLE = 10_000
"""Basis points of all units together."""

COMPANY = "company_holdout"
"""Arm of an account that no campaign of the company treats. An arm of an experiment is often called ``holdout``."""

ASSIGN = b"arm"
"""Purpose that separates the hash of an arm from those that explore and break ties."""

LEAVE_OUT = b"company"
"""Purpose that separates the holdout of the company from arms: the same key as a salt gives other accounts."""

LONGEST_SALT = 64
"""Bytes: the longest key that blake2b takes."""

RESERVED = (UNASSIGNED, CANARY, COMPANY)
"""Names that no arm of an experiment has."""

ARM_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}"

HOLDOUT = "holdout"
"""Reason of an answer to a unit in a holdout."""


def places(units: Sequence[str], key: bytes, purpose: bytes) -> NDArray[np.int64]:
    """(N,): a fixed place in [0, 10,000) of each unit, which key and purpose determine. O(N)."""
    digests = (hashlib.blake2b(unit.encode(), digest_size=8, key=key, person=purpose).digest() for unit in units)
    return np.array([int.from_bytes(digest, "big") * WHOLE >> 64 for digest in digests], dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class Holdout:
    """Accounts that no campaign of a company treats; every campaign repeats it.

    key    1 to 64 bytes, not a secret, the same in all campaigns: it decides which accounts
    share  of the accounts, basis points. A larger share adds accounts and lets none go.

    Example:
        >>> Holdout(key="company", share=5000).holds(["a", "b", "c"]).tolist()
        [False, True, False]
    """

    key: str
    share: int

    def __post_init__(self) -> None:
        _check_key(self.key, "holdout.key")
        _check_share(self.share, "holdout.share")
        if not 0 < self.share < WHOLE:
            raise InvalidInput(f"must be above 0 and below {WHOLE} basis points", field="holdout.share")

    def holds(self, accounts: Sequence[str]) -> NDArray[np.bool_]:
        """Bool (N,): the accounts that no campaign treats. O(N)."""
        return places(accounts, self.key.encode(), LEAVE_OUT) < self.share

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Holdout:
        """Build a holdout from its fields, checking each; :func:`dataclasses.asdict` is the inverse."""
        return cls(**data)


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One arm of an experiment.

    name   of the arm: a label of metrics and a column of the log
    kind   ``holdout``: the lowest level of each side; ``policy``: the answer of model and price; ``explore``: a level
           drawn from the allowed ones, by the weights of the campaign
    share  of the units at the start, basis points
    """

    name: str
    kind: ArmKind
    share: int

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not re.fullmatch(ARM_NAME, self.name) or self.name in RESERVED:
            raise InvalidInput(
                f"must be at most 63 ASCII letters, digits, '-' or '_' and none of {RESERVED}, got {self.name!r}",
                field="experiment.arms.name",
            )
        if self.kind not in get_args(ArmKind):
            raise InvalidInput(f"must be one of {get_args(ArmKind)}, got {self.kind!r}", field="experiment.arms.kind")
        _check_share(self.share, "experiment.arms.share")


@dataclass(frozen=True, kw_only=True)
class Raise:
    """Later growth of one arm by ``share`` basis points, taken from the units that no arm had taken."""

    arm: str
    share: int

    def __post_init__(self) -> None:
        _check_share(self.share, "experiment.raises.share")


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Arms of a campaign and the assignment of units to them.

    arms    names differ; the shares sum to at most 10,000 basis points
    salt    1 to 64 bytes, not a secret; another experiment takes another salt, so that its arms are independent
    unit    identifier that is hashed: all requests of a unit are in one arm; one without a name has none
    raises  growth of arms since the start, in order

    Each unit has a fixed place in [0, 10,000). The arms take intervals of places in their order, and each raise takes
    the next interval. A raise therefore moves no unit that has an arm: three or more arms that may all grow cannot have
    this property with intervals computed from their shares alone.

    Example:
        >>> test = Experiment(arms=(Arm(name="holdout", kind="holdout", share=1000),), salt="spring")
        >>> test.arm_of(["a", "b"]).tolist()
        ['unassigned', 'unassigned']
        >>> test.raised("holdout", 3000).share("holdout")
        3000
    """

    arms: tuple[Arm, ...]
    salt: str
    unit: Unit = "account"
    raises: tuple[Raise, ...] = ()

    def __post_init__(self) -> None:
        names = [arm.name for arm in self.arms]
        if not names:
            raise InvalidInput("needs at least one arm", field="experiment.arms")
        if len(set(names)) < len(names):
            raise InvalidInput("names must differ", field="experiment.arms.name")
        _check_key(self.salt, "experiment.salt")
        if self.unit not in get_args(Unit):
            raise InvalidInput(f"must be one of {get_args(Unit)}, got {self.unit!r}", field="experiment.unit")
        unknown = {raised.arm for raised in self.raises} - set(names)
        if unknown:
            raise InvalidInput(f"must name an arm, {names}, got {sorted(unknown)}", field="experiment.raises.arm")
        taken = sum(share for _, share in self._intervals)
        if taken > WHOLE:
            raise InvalidInput(
                f"must sum to at most {WHOLE} basis points, got {taken}; lower one", field="experiment.arms.share"
            )

    @property
    def _intervals(self) -> list[tuple[int, int]]:
        """Index and width of the arm of each interval of places."""
        index = {arm.name: place for place, arm in enumerate(self.arms)}
        start = [(place, arm.share) for place, arm in enumerate(self.arms)]
        return start + [(index[raised.arm], raised.share) for raised in self.raises]

    @property
    def shares(self) -> dict[str, int]:
        """Arm → basis points now, raises included; the rest is ``unassigned``."""
        share_of = {arm.name: 0 for arm in self.arms}
        for place, share in self._intervals:
            share_of[self.arms[place].name] += share
        return share_of | {UNASSIGNED: WHOLE - sum(share_of.values())}

    def share(self, arm: str) -> int:
        """Basis points of one arm now, or a clear refusal."""
        if arm not in self.shares:
            raise InvalidInput(f"there is no arm {arm!r}; there are {list(self.shares)}", field="arm")
        return self.shares[arm]

    def kind_share(self, kind: ArmKind) -> float:
        """Share in [0, 1] of the units whose arm is of one kind."""
        return sum(self.shares[arm.name] for arm in self.arms if arm.kind == kind) / WHOLE

    def raised(self, arm: str, share: int) -> Experiment:
        """Return the experiment with an arm grown to ``share`` basis points; no unit leaves an arm.

        Raises:
            InvalidInput: no such arm, a share below the present one, or above the remaining share.
        """
        more = share - self.share(arm)
        if more < 0:
            raise InvalidInput(f"can only grow: it is {self.share(arm)} basis points now, got {share}", field="share")
        return replace(self, raises=(*self.raises, Raise(arm=arm, share=more))) if more else self

    def places(self, units: Sequence[str]) -> NDArray[np.int64]:
        """(N,): the place of each unit in [0, 10,000). O(N)."""
        return places(units, self.salt.encode(), ASSIGN)

    def index_of(self, units: Sequence[str]) -> NDArray[np.intp]:
        """(N,): the index of each unit's arm in ``arms``; their number for a unit without an arm. O(N)."""
        intervals = self._intervals
        ends = np.cumsum([share for _, share in intervals])
        arm = np.array([place for place, _ in intervals] + [len(self.arms)], dtype=np.intp)
        index = arm[np.searchsorted(ends, self.places(units), side="right")]
        index[[row for row, unit in enumerate(units) if not unit]] = len(self.arms)
        return index

    def arm_of(self, units: Sequence[str]) -> NDArray[np.str_]:
        """(N,): the name of each unit's arm. The same unit always gets the same arm while shares only grow. O(N)."""
        names = np.array([*(arm.name for arm in self.arms), UNASSIGNED], dtype=np.str_)
        return names[self.index_of(units)]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; :meth:`from_dict` is the inverse."""
        return {
            "arms": [asdict(arm) for arm in self.arms],
            "salt": self.salt,
            "unit": self.unit,
            **({"raises": [asdict(raised) for raised in self.raises]} if self.raises else {}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Experiment:
        """Build an experiment from what :meth:`to_dict` gave, checking every field."""
        return cls(
            arms=tuple(Arm(**arm) for arm in data["arms"]),
            raises=tuple(Raise(**fields_of) for fields_of in data.get("raises", [])),
            **{name: data[name] for name in ("salt", "unit") if name in data},
        )


@dataclass(frozen=True)
class Treatment:
    """Answering rule of N requests by their arms.

    arm          str (N,), name of the arm
    held         bool (N,), whether the arm is a holdout
    exploration  float64 (N,), probability that the level is drawn
    """

    arm: NDArray[np.str_]
    held: NDArray[np.bool_]
    exploration: NDArray[np.float64]

    def take(self, rows: Sequence[int] | NDArray[np.intp]) -> Treatment:
        """Return the requests at ``rows``."""
        index = np.asarray(rows, dtype=np.intp)
        return Treatment(self.arm[index], self.held[index], self.exploration[index])

    def allowed(self, levels: int, allowed: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
        """Bool (J, N): the levels that may be given, of a holdout only the lowest allowed one."""
        if not self.held.any():
            return allowed
        mask = np.ones((levels, self.held.size), dtype=np.bool_) if allowed is None else np.array(allowed)
        lowest = mask[:, self.held].argmax(axis=0)
        mask[:, self.held] = np.arange(levels)[:, None] == lowest
        return mask


def units_of(
    experiment: Experiment | None,
    account_id: Sequence[str],
    partner_id: Sequence[str],
    at: Sequence[datetime],
    groups: Groups | None = None,
) -> Sequence[str]:
    """Return the unit of each of N requests; empty where a request names none.

    Args:
        experiment: None: accounts.
        account_id, partner_id: of the requests; a partner may be empty.
        at: time of each decision, with a time zone.
        groups: of accounts, which an experiment by clusters needs; an account of none is a cluster of its own.

    Raises:
        InvalidInput: the experiment is by clusters and there are no groups.

    Example:
        >>> from datetime import UTC
        >>> test = Experiment(arms=(Arm(name="on", kind="policy", share=5000),), salt="s", unit="hour")
        >>> units_of(test, ["a"], [""], [datetime(2026, 5, 1, 13, 40, tzinfo=UTC)])
        ['2026-05-01T13']
    """
    if experiment is None or experiment.unit == "account":
        return account_id
    if experiment.unit == "partner":
        return partner_id
    if experiment.unit == "hour":
        return [f"{moment.astimezone(UTC):{HOUR}}" for moment in at]
    if groups is None:
        fault = "clusters need the groups of the accounts; run `shadowprice job featurize`"
        raise InvalidInput(fault, field="experiment.unit")
    return groups.units(account_id)


def treatment(
    experiment: Experiment | None,
    units: Sequence[str],
    exploration: float,
    held: NDArray[np.bool_] | None = None,
) -> Treatment:
    """Assign units to arms and return how each is answered.

    Args:
        experiment: None: nobody has an arm.
        units: N identifiers of the experiment's unit.
        exploration: ε of the campaign, used in arms of kind ``policy`` and for units without an arm.
        held: bool (N,), the requests of accounts in the holdout of the company, whatever their unit; None: there are
            none.

    The propensity of a level is then conditional on the arm: 1 for the lowest in a holdout, w/Σ w over the allowed
    levels in an exploring arm.
    """
    if held is not None and held.any():
        own = treatment(experiment, units, exploration)
        return Treatment(np.where(held, COMPANY, own.arm), own.held | held, np.where(held, 0.0, own.exploration))
    n = len(units)
    if experiment is None:
        return Treatment(np.full(n, UNASSIGNED), np.zeros(n, dtype=np.bool_), np.full(n, exploration))
    by_kind: dict[str, float] = {"holdout": 0.0, "policy": exploration, "explore": 1.0}
    shares = np.array([*(by_kind[arm.kind] for arm in experiment.arms), exploration])
    held = np.array([*(arm.kind == "holdout" for arm in experiment.arms), False])
    index = experiment.index_of(units)
    names = np.array([*(arm.name for arm in experiment.arms), UNASSIGNED], dtype=np.str_)
    return Treatment(names[index], held[index], shares[index])


def _check_key(given: object, field: str) -> None:
    if not isinstance(given, str) or not 1 <= len(given.encode()) <= LONGEST_SALT:
        raise InvalidInput(f"must be text of 1 to {LONGEST_SALT} bytes", field=field)


def _check_share(given: object, field: str) -> None:
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= WHOLE:
        raise InvalidInput(f"must be a whole number of basis points, 0 to {WHOLE}, got {given!r}", field=field)
