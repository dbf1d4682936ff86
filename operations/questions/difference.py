"""Tell what a change of a campaign's terms will do before it is made."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from operations.common.workspace import read_campaign
from operations.questions.question import open_what_if
from shadowprice.campaign import Campaign, Side
from shadowprice.errors import InvalidInput
from shadowprice.pacing.questions import Answer, Change, Paid
from shadowprice.pacing.what_if import SAMPLE_ROWS
from shadowprice.progress import Stages

Key = tuple[str, ...]
Flat = dict[Key, Any]
"""Place of a term in a campaign's file → its value; limits and rules are places by name."""

OFFERED = "offers"
"""Last part of the place that holds all that a side's levels are."""
OF_LEVELS = ("levels", "offers", "amounts", "costs")
SAME = 1e-6
"""Minor units a request below which an account's incentive has not changed."""


@dataclass(frozen=True, kw_only=True)
class Alone:
    """One term, and what it does when nothing else changes.

    name    of the term, such as ``budget.limit`` or ``rules.adults``
    before, after  its values; None where it is missing
    answer  the campaign with this term alone changed, or without this limit or rule
    """

    name: str
    before: Any
    after: Any
    answer: Answer


@dataclass(frozen=True, kw_only=True)
class SideChange:
    """Effect of a change on the requests of one side.

    more, less  shares of its requests whose expected incentive rises and falls
    before, after  minor units that the side is given in the window
    """

    more: float
    less: float
    before: float
    after: float


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Effect of a change of terms over the window.

    campaign       as it would be
    before, after  what both bring
    sides          who is given more, and who less
    changes        each changed term, alone in the campaign of before
    prices         each limit and rule of the campaign as it would be: the answer without it
    """

    campaign: Campaign
    before: Answer
    after: Answer
    sides: Mapping[Side, SideChange]
    changes: tuple[Alone, ...]
    prices: tuple[Alone, ...]


def difference(workspace: Path, after: Campaign, before: Campaign | None = None, rows: int = SAMPLE_ROWS) -> Difference:
    """Compare a campaign with changed terms over the population of a workspace.

    Args:
        workspace: folder of the run, whose model has the curves.
        after: the campaign as it would be.
        before: as it is; None: that of the workspace.
        rows: accounts to solve on; 0 for all.

    Raises:
        InvalidInput: a level that the model has no curve at, another name or currency, or a delivery.
    """
    own = before or read_campaign(workspace)
    for name in ("name", "currency", "long_term"):
        if getattr(own, name) != getattr(after, name):
            raise InvalidInput(f"must stay {getattr(own, name)!r}: no figure could be compared", field=name)
    flat, wanted = flatten(own), flatten(after)
    names = [key for key in dict.fromkeys((*flat, *wanted)) if flat.get(key) != wanted.get(key)]
    limits = [
        key for key in wanted if key[0] in ("limits", "rules") and len(key) > 1 and key != ("limits", "time_zone")
    ]

    def ask(terms: Flat) -> tuple[Answer, dict[Side, Paid]]:
        campaign, offered = _campaign(terms, flat)
        return open_what_if(workspace, rows=rows, campaign=campaign).solver.ask_accounts(Change(levels=offered))

    with Stages("diff", 2 + len(names) + len(limits)) as stage:
        stage("before")
        now, paid = ask(flat)
        stage("after")
        then, paid_then = ask(wanted)
        changes, prices = [], []
        for key in names:
            stage(".".join(key))
            one = {place: value for place, value in flat.items() if place != key}
            one |= {key: wanted[key]} if key in wanted else {}
            answer = then if len(names) == 1 else ask(one)[0]
            changes.append(Alone(name=".".join(key), before=flat.get(key), after=wanted.get(key), answer=answer))
        for key in limits:
            stage(f"without {'.'.join(key)}")
            answer = ask({place: value for place, value in wanted.items() if place != key})[0]
            prices.append(Alone(name=".".join(key), before=wanted[key], after=None, answer=answer))
    sides = {side: _side(paid[side], paid_then[side]) for side in paid if side in paid_then}
    return Difference(campaign=after, before=now, after=then, sides=sides, changes=tuple(changes), prices=tuple(prices))


def flatten(campaign: Campaign) -> Flat:
    """Return the terms of a campaign by their places.

    Example:
        >>> from datetime import UTC, datetime
        >>> from shadowprice.campaign import Budget, Terms
        >>> sides = {"customer": Terms(levels=(0, 60))}
        >>> one = Campaign(name="a", sides=sides, budget=Budget(limit=9), starts_at=datetime(2026, 1, 1, tzinfo=UTC))
        >>> flatten(one)["budget", "limit"], flatten(one)["sides", "customer", "offers"]
        (9, ({'levels': 0},))
    """
    return dict(_places(campaign.to_dict()))


def _places(content: Mapping[str, Any]) -> Iterator[tuple[Key, Any]]:
    for name, value in content.items():
        if name == "sides":
            for side, terms in value.items():
                listed = {part: terms[part] for part in OF_LEVELS if part in terms}
                rows = zip(*listed.values(), strict=True)
                yield (name, side, OFFERED), tuple(dict(zip(listed, row, strict=True)) for row in rows)
                yield from (((name, side, part), term) for part, term in terms.items() if part not in OF_LEVELS)
        elif name == "limits":
            for kind, limits in value.items():
                if kind == "time_zone":
                    yield (name, kind), limits
                else:
                    yield from (((name, kind, limit["name"]), limit) for limit in limits)
        elif name == "rules":
            yield from (((name, rule["name"]), rule) for rule in value)
        elif isinstance(value, Mapping) and name in ("budget",):
            yield from (((name, part), term) for part, term in value.items())
        else:
            yield (name,), value


def _campaign(terms: Flat, own: Flat) -> tuple[Campaign, dict[Side, tuple[int, ...]]]:
    """The campaign with the model's own levels, and the levels that are offered of each side that has fewer."""
    content: dict[str, Any] = {"sides": {}, "budget": {}, "limits": {}, "rules": []}
    offered: dict[Side, tuple[int, ...]] = {}
    for key, value in terms.items():
        match key:
            case ("sides", side, part) if part == OFFERED:
                known = own.get(key, ())
                if any(row not in known for row in value):
                    wrong = next(row for row in value if row not in known)
                    raise InvalidInput(
                        f"has {wrong['levels']}, which is not offered now: the model knows no response to it",
                        field=f"sides.{side}.levels",
                    )
                rows = known or value
                content["sides"].setdefault(side, {}).update({name: [row[name] for row in rows] for name in rows[0]})
                if len(value) < len(rows):
                    offered[cast(Side, side)] = tuple(row["levels"] for row in value)
            case ("sides", side, part):
                content["sides"].setdefault(side, {})[part] = value
            case ("limits", "time_zone"):
                content["limits"]["time_zone"] = value
            case ("limits", kind, _):
                content["limits"].setdefault(kind, []).append(value)
            case ("rules", _):
                content["rules"].append(value)
            case ("budget", part):
                content["budget"][part] = value
            case ("portfolio",):
                pass  # no solve reads the bounds of moves, and they refuse a limit beyond them
            case (name,):
                content[name] = value
    return Campaign.from_dict(content), offered


def _side(before: Paid, after: Paid) -> SideChange:
    """Compare the accounts that both solves had; a sample has the same draws unless rules change who may be paid."""
    at: dict[str, dict[int, float]] = {}
    for name, paid in (("before", before), ("after", after)):
        each = np.divide(paid.cost, paid.requests, out=np.zeros_like(paid.cost), where=paid.requests > 0)
        at[name] = dict(zip(paid.index.tolist(), each.tolist(), strict=True))
    requests = dict.fromkeys(at["before"], 0.0)
    for place, count in zip(before.index.tolist(), before.requests.tolist(), strict=True):
        requests[place] += count
    both = [place for place in at["before"] if place in at["after"]]
    moved = np.array([at["after"][place] - at["before"][place] for place in both])
    weight = np.array([requests[place] for place in both])
    total = max(float(weight.sum()), 1e-12)
    return SideChange(
        more=float(weight[moved > SAME].sum()) / total,
        less=float(weight[moved < -SAME].sum()) / total,
        before=float(before.cost.sum()),
        after=float(after.cost.sum()),
    )
