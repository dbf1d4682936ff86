"""Asking the ledger about calls together, and apart where it does not take their message."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Protocol

from serving.predictor.active import Active
from serving.predictor.ledger.client import Authorization, KnownRequests
from serving.predictor.ledger.columns import Authorized, Proposals
from shadowprice.errors import InvalidRequest, ShadowpriceError, Unavailable
from shadowprice.pacing.decision_log.records import Decision, columns

UNPROCESSABLE = 422
"""Status of a message that the ledger reads and whose content cannot be."""

Part = tuple[Proposals, KnownRequests, list[int]]
"""Proposals and known requests of some calls, and the number of proposals of each call."""


class Ledger(Protocol):
    """Authorizes answers; :class:`serving.predictor.ledger.client.Authorizer` is the real one."""

    async def authorize(
        self,
        proposals: Proposals,
        known: KnownRequests | None = None,
        *,
        sizes: Sequence[int] | None = None,
        model_version: str,
        price_version: int,
    ) -> Authorization:
        """Record the proposals of several calls, each all or none, and look up the known requests."""


async def authorize(
    ledger: Ledger,
    proposals: Proposals,
    known: KnownRequests,
    sizes: Sequence[int],
    active: Active,
    *,
    required: bool,
) -> tuple[Authorization, bool]:
    """Return the decisions on the requests of some calls, and whether some lack the ledger's authorization.

    Calls that the ledger refuses together are halved until it refuses single calls alone.

    Args:
        ledger: that is asked.
        proposals: of all calls, in order.
        known: requests of the same calls whose earlier decisions are wanted.
        sizes: proposals of each call.
        active: price and model of the proposals that name none.
        required: whether no decision stands without the ledger.

    Raises:
        Unavailable: the ledger does not answer, and it is required.
    """
    failure: Exception
    try:
        authorization = await ledger.authorize(
            proposals, known, sizes=sizes, model_version=active.model.version, price_version=active.price.version
        )
        return authorization, False
    except InvalidRequest as error:
        if len(sizes) > 1:
            return await _apart(ledger, proposals, known, sizes, active, required)
        if error.status != UNPROCESSABLE:
            return _refused(error, 1), False
        # Terms that predictor and ledger do not share are no fault of the caller.
        failure = error
    except Unavailable as error:
        failure = error
    if required:
        raise Unavailable(f"no decision is given without authorization; send the request again: {failure}") from failure
    return _unauthorized(proposals, len(sizes), active), True


async def _apart(
    ledger: Ledger, proposals: Proposals, known: KnownRequests, sizes: Sequence[int], active: Active, required: bool
) -> tuple[Authorization, bool]:
    parts = _halves(proposals, known, sizes)
    halves: list[tuple[Authorization, bool]] = []
    for part in parts:
        try:
            halves.append(await authorize(ledger, *part, active, required=required))
        except Unavailable as error:
            halves.append((_refused(error, len(part[2])), False))
    (first, failed), (second, also) = halves
    return _joined(first, second, len(parts[0][1].request_id)), failed or also


def _halves(proposals: Proposals, known: KnownRequests, sizes: Sequence[int]) -> tuple[Part, Part]:
    """Return the parts of the first and of the second half of the calls.

    Args:
        proposals: of all calls, in order.
        known: requests of the same calls, in the order of the calls.
        sizes: proposals of each call; at least two calls.
    """
    middle = len(sizes) // 2
    proposed, asked = sum(sizes[:middle]), sum(call < middle for call in known.call)
    first = _proposals(proposals, slice(proposed)), _known(known, slice(asked), 0), [*sizes[:middle]]
    second = _proposals(proposals, slice(proposed, None)), _known(known, slice(asked, None), middle), [*sizes[middle:]]
    return first, second


def _joined(first: Authorization, second: Authorization, known: int) -> Authorization:
    """Return the answer to both halves, of which the first asks about ``known`` requests."""
    parts = [(vars(part.decisions), len(part.decisions.request_id) - len(part.known)) for part in (first, second)]
    (one, until), (other, end) = parts
    columns = {
        name: [*column[:until], *other[name][:end], *column[until:], *other[name][end:]] for name, column in one.items()
    }
    places = first.known + [known + place for place in second.known]
    return Authorization(Authorized(**columns), places, [*first.errors, *second.errors])


def _refused(error: ShadowpriceError, calls: int) -> Authorization:
    """Return the answer that refuses each of the calls with one error."""
    return Authorization(Authorized(**{field.name: [] for field in fields(Authorized)}), [], [error] * calls)


def _proposals(proposals: Proposals, rows: slice) -> Proposals:
    columns: dict[str, Any] = {
        name: None if column is None else column[rows] for name, column in vars(proposals).items()
    }
    return Proposals(**columns)


def _known(known: KnownRequests, rows: slice, first: int) -> KnownRequests:
    return KnownRequests(
        known.request_id[rows], known.account_id[rows], known.side[rows], [call - first for call in known.call[rows]]
    )


def _unauthorized(proposals: Proposals, calls: int, active: Active) -> Authorization:
    """Return the proposals as if they had been recorded; what only the ledger writes has its default."""
    usual = {column.name: column.earlier for column in columns(Decision) if column.field.returned}
    usual |= {"model_version": active.model.version, "price_version": active.price.version, "repeat": False}
    n = len(proposals.request_id)
    decisions = {name: getattr(proposals, name, None) or [value] * n for name, value in usual.items()}
    return Authorization(Authorized(**decisions), known=[], errors=[None] * calls)
