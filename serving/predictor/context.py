"""Checks of context and partner of requests, and embeddings of those that carry some."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import orjson

from serving.predictor.active import ServedModel
from serving.predictor.features import Embeddings
from serving.protocol import CONTEXT, Requests
from shadowprice.campaign import SIDES, Campaign, Side
from shadowprice.campaign.session import SESSION
from shadowprice.errors import InvalidContext
from shadowprice.limits.coverage import SideRequests
from shadowprice.responses.layers.request import embed_requests, reads_partners

SESSIONS_AT_ONCE = 8
"""Requests with sessions that are joined on the event loop."""


def context_names(model: ServedModel) -> tuple[str, ...]:
    """Return the names of all context values that the model reads, of any side."""
    return tuple(dict.fromkeys(name for tower in model.towers.values() for name in tower.accepts))


def check_context(model: ServedModel, requests: Requests) -> None:
    """Refuse context that the model does not read for the side of its request.

    Raises:
        InvalidContext: names the value, the first rows, and what the model reads.
    """
    for name, values in requests.context.items():
        wrong = [
            row
            for row, (side, value) in enumerate(zip(requests.side, values, strict=True))
            if value is not None and name not in _accepted(model, side)
        ]
        if wrong:
            side = requests.side[wrong[0]]
            read = list(_accepted(model, side))
            what = f"it reads {read}" if read else "it reads none"
            reason = f"the active model does not read it for side {side!r}; {what}"
            raise InvalidContext(reason, field=name if name == SESSION else f"{CONTEXT}.{name}", rows=wrong[:5])


def check_partner(campaign: Campaign, requests: Requests) -> None:
    """Refuse requests without a partner where a limit of partners counts those of their side.

    Raises:
        InvalidContext: names the limit and the first rows.
    """
    for side in campaign.sides:
        limit = campaign.limits.partner_limit(side)
        if limit is None:
            continue
        asked = enumerate(zip(requests.side, requests.partner_id, strict=True))
        wrong = [row for row, (own, partner) in asked if own == side and not partner]
        if wrong:
            reason = f"is needed of side {side!r}: limit {limit!r} counts by partner; send it, or give the limit a side"
            raise InvalidContext(reason, field="partner_id", rows=wrong[:5])


def logged_context(requests: Requests, rows: Sequence[int]) -> list[str]:
    """Return the context of requests as the decision log keeps it: JSON with sorted names, empty without any."""
    if not requests.context:
        return [""] * len(rows)
    names = sorted(requests.context)
    texts = []
    for row in rows:
        values = {name: value for name in names if (value := requests.context[name][row]) is not None}
        texts.append(orjson.dumps(values).decode() if values else "")
    return texts


async def read_requests(model: ServedModel, asked: SideRequests) -> Embeddings:
    """Read the embeddings of requests of one side; accounts and partners at the same time.

    A request without context and partner has the stored embedding. Any other is joined now: the account's own
    embedding, the context or session it carries, and the partner's own embedding, as the rows of training were. A
    partner that the feature store does not know counts as none.
    """
    side, names, context = asked.side, asked.account_id, asked.context or {}
    features, tower, failed, vectors = model.features, model.towers.get(side), False, None
    if tower is None:
        return await features.fetch(side, names)
    named = reads_partners(tower, side, model.heads, asked.partners)
    if named.any():
        read = [asked.partners[row] for row in np.flatnonzero(named).tolist()]
        other = SIDES[1 - SIDES.index(side)]
        own, theirs = await asyncio.gather(features.fetch(side, names), features.fetch(other, read))
        vectors, failed = (theirs.matrix, theirs.informed), theirs.failed
    else:
        own = await features.fetch(side, names)
    joined = partial(embed_requests, tower, own.matrix, context, named, vectors)
    # Many sessions take long; other calls go on meanwhile.
    many = SESSION in context and len(names) > SESSIONS_AT_ONCE
    matrix = await asyncio.to_thread(joined) if many else joined()
    return replace(own, matrix=matrix, failed=own.failed or failed)


def _accepted(model: ServedModel, side: Side) -> tuple[str, ...]:
    tower = model.towers.get(side)
    return () if tower is None else tower.accepts
