"""Receipt of one decision: all that a stranger needs to check it, and the check of a log against published heads."""

from binascii import a2b_base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from shadowprice.campaign import Campaign
from shadowprice.errors import Conflict, NotFound
from shadowprice.pacing.decision_log import verify_receipt
from shadowprice.pacing.decision_log.basis import DIGEST_BYTES, ERASED, digest_of, parted, terms_of
from shadowprice.pacing.decision_log.records import Decision
from shadowprice.pacing.decision_log.segments import tables_after
from shadowprice.pacing.decision_log.tree import LogTree, entry, heads_of, leaf, rows_after
from shadowprice.pacing.price_store import PriceStore
from shadowprice.price import PriceRecord


@dataclass(frozen=True)
class Receipts:
    """Makes receipts of a log.

    campaign  as it was when the request was decided; arms may have grown since
    log       folder of the decision log
    prices    of the campaign, and of canaries
    kept      file with the roots of the log's blocks; None: computed from the whole log
    listed    prices of lists, which are in no price store
    """

    campaign: Campaign
    log: Path
    prices: Sequence[PriceStore]
    kept: Path | None = None
    listed: Sequence[PriceRecord] = ()

    def receipt(self, request_id: str) -> bytes:
        """Return the receipt of a request, verified.

        Raises:
            NotFound: the log has no such request, nothing to check it by, or its price was removed.
            Conflict: no price was published since, the campaign has changed, or the log is not that of the heads.
        """
        number = self._number(request_id)
        row = next(rows_after(self.log, number - 1))
        if not row.basis:
            raise NotFound(
                f"request {request_id!r} has no receipt: it was decided before receipts were kept, or with more "
                "budgets and levels than the ledger keeps"
            )
        head = next((record for record in self._heads() if record.log_rows >= number), None)
        if head is None:
            raise Conflict(
                f"request {request_id!r} is in no published head yet; the next price that is published seals it"
            )
        salt, basis = parted(row.basis)
        price, terms = self._decided_by(row, a2b_base64(basis.partition("|")[0])[:DIGEST_BYTES])
        levels, _, _ = verify_receipt.levels_of(basis, terms)
        text = verify_receipt.canonical(
            {
                "draws": [verify_receipt.draw(request_id, purpose) / 2.0**64 for purpose in (b"", b"explore")],
                "entry": entry(row),
                "head": head.to_dict(),
                "levels": levels,
                "owner": {"erased": salt[1:]}
                if salt.startswith(ERASED)
                else {"account_id": row.account_id, "partner_id": row.partner_id, "salt": salt},
                "price": price.to_dict(),
                "proof": [number, *LogTree(self.log, self.kept).proof(number, head.log_rows)],
                "terms": terms,
            },
            indent=1,
        )
        text += b"\n"
        try:
            verify_receipt.verify(text)
        except ValueError as error:
            raise Conflict(f"the receipt of request {request_id!r} does not hold: {error}") from error
        return text

    def check_heads(self) -> int:
        """Compare the log with every published head, and return their number. O(rows of the log).

        Raises:
            Conflict: a head is not that of the log: rows were changed, left out or added.
        """
        heads = self._heads()
        found = dict(heads_of(map(leaf, rows_after(self.log, 0)), {record.log_rows for record in heads}))
        for record in heads:
            if found.get(record.log_rows) != record.log_head:
                raise Conflict(
                    f"the first {record.log_rows} decisions of {self.log} are not those that price version "
                    f"{record.version} of {record.solved_at.isoformat()} was sealed with"
                )
        return len(heads)

    def _heads(self) -> list[PriceRecord]:
        """Return the served prices of the campaign's window with a head, those with the fewest decisions first.

        A run on one machine has another log in each window.
        """
        records = self.prices[0].sound(self.campaign.name)
        own = (each for each in records if each.log_rows and each.window in (None, self.campaign.starts_at))
        return sorted(own, key=lambda record: record.log_rows)

    def _number(self, request_id: str) -> int:
        read = 0
        for table in tables_after(self.log, "decisions", 0, ["request_id"]):
            place = pc.index(table["request_id"], request_id).as_py()
            if place >= 0:
                return int(read + place + 1)
            read += table.num_rows
        raise NotFound(f"request_id: the log has no request {request_id!r}; a new one is logged within seconds")

    def _decided_by(self, row: Decision, digest: bytes) -> tuple[PriceRecord, dict[str, Any]]:
        """Return price record and terms that a basis names by their digest."""
        records = [
            record
            for record in chain(self.listed, *(store.sound(self.campaign.name) for store in self.prices))
            if (record.version, record.model_version) == (row.price_version, row.model_version)
        ]
        if not records:
            raise NotFound(f"price version {row.price_version} of {self.campaign.name!r} is not kept any more")
        for record in records:
            for campaign in _earlier(self.campaign):
                terms = terms_of(campaign, row.side, record.sha256)
                if digest_of(terms) == digest:
                    return record, terms
        raise Conflict("arms, rules, offers or budgets have changed since; name the campaign file as it was then")


def _earlier(campaign: Campaign) -> Iterator[Campaign]:
    """Yield the campaign as it is, and as it was before each raise of an arm, the last one first."""
    yield campaign
    test = campaign.experiment
    for count in reversed(range(len(test.raises) if test else 0)):
        assert test is not None
        yield replace(campaign, experiment=replace(test, raises=test.raises[:count]))
