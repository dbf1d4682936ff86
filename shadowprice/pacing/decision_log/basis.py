"""Basis of a decision: the numbers that the rule read, as the ledger keeps them for a receipt.

A basis is text: base64 of a salt of 12 bytes and of the packed numbers, then, where a level is forbidden, ``|`` and the
reason for each level, separated by commas. The numbers, little-endian, are short, since most follow from the terms:

- 12 bytes of the digest of the terms;
- a byte: two bits choose ε among those of the terms, the third tells whether values follow;
- a byte for each priced budget: 0 not charged, 1 unit cost × response, 2 unit cost, 3 charges follow;
- the response of each level as a float, then values and charges as doubles, then zeros up to a multiple of 3.

The salt is in a commitment to account and partner (:func:`commitment`). An erasure replaces it by ``!`` and the
commitment, so the record stays verifiable.
"""

import json
import os
from binascii import b2a_base64
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import sha256
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from shadowprice.campaign import Campaign, Side
from shadowprice.pacing.decision_log.records import LONGEST_BASIS
from shadowprice.pacing.decision_log.verify_receipt import canonical
from shadowprice.policy import Decided

SALT_BYTES, SALT = 12, 16
"""Bytes of a salt, and its characters in base64."""
DIGEST_BYTES = 12
ERASED = "!"
Rows = TypeVar("Rows", bytes, str)
MODEL, ARM = -1, -2
"""Reasons beside the numbers of rules."""


def terms_of(campaign: Campaign, side: Side, price: str) -> dict[str, Any]:
    """Return the part of a campaign that a receipt of a side needs; ``price`` is the checksum of the price record."""
    terms, test = campaign.terms(side), campaign.experiment
    return {
        "campaign": campaign.name,
        "delivery": bool(terms.segments),
        "experiment": None if test is None else test.to_dict(),
        "exploration": [0.0, 1.0, campaign.exploration, max(campaign.exploration, campaign.alarm_exploration)],
        "holdout": None if campaign.holdout is None else asdict(campaign.holdout),
        "offers": list(campaign.offer_ids[side]),
        "price": price,
        "priced": list(campaign.priced),
        "reserved": list(terms.reserved),
        "rules": [rule.name for rule in campaign.rules],
        "side": side,
        "unit_costs": list(terms.unit_costs),
        "weight": terms.weight,
        # Receipts of campaigns that draw uniformly keep their digest.
        **({"weights": campaign.draw_weights(side).tolist()} if side in campaign.exploration_weights else {}),
    }


def digest_of(terms: Mapping[str, Any]) -> bytes:
    """Return the bytes that name the terms in each basis."""
    return sha256(json.dumps(terms, sort_keys=True, separators=(",", ":")).encode()).digest()[:DIGEST_BYTES]


@dataclass(frozen=True, eq=False)
class Bases:
    """Writes the bases of one side's decisions at one price, which ``price`` names by its checksum.

    ``of_list``: the decisions are of a list, which may charge the most that a level can cost, and forbids levels by its
    caps and for the rest of its money.
    """

    campaign: Campaign
    side: Side
    price: str
    of_list: bool = False

    @cached_property
    def _terms(self) -> dict[str, Any]:
        return terms_of(self.campaign, self.side, self.price)

    @cached_property
    def _digest(self) -> bytes:
        return digest_of(self._terms)

    @cached_property
    def _unit(self) -> NDArray[np.float64]:
        return np.asarray(self._terms["unit_costs"], dtype=np.float64)[:, None]

    @cached_property
    def _main(self) -> int:
        """Code of the main budget; 0 where its charge is more than the cost of a fixed amount."""
        terms = self.campaign.terms(self.side)
        if self.of_list or self.campaign.budget.form == "per_response" or any(terms.percent):
            return 0
        return 1 if terms.cost_basis == "on_response" else 2

    def of(self, decided: Decided, response: NDArray[np.float32]) -> list[str]:
        """Return the basis of each of n decisions with these curves (J, n); empty where it would be too long. O(n·K·J).

        The price is that of the decisions.
        """
        choices, n, terms = decided.choices, len(decided.groups), self.campaign.terms(self.side)
        follow = [choices.value] if terms.segments or terms.worth else []
        known, flag = self._terms["exploration"], 4 * len(follow)
        codes = [[known.index(each) + flag for each in decided.decision.policy.exploration.tolist()]]
        for place, charge in enumerate(() if terms.segments else choices.charges):
            # The charge of the main budget is the cost, so nothing needs to be compared for each call.
            code = [self._main] * n if place == 0 and self._main else self._code(charge, response)
            codes.append([3] * n if code is None else code)
            follow += [charge] if code is None else []
        width = SALT_BYTES + DIGEST_BYTES + len(codes) + 4 * len(response) * (1 + 2 * len(follow))
        if not n or 4 * width > 3 * LONGEST_BASIS:
            return [""] * n
        parts = [
            _cut(os.urandom(SALT_BYTES * n), n),
            [self._digest] * n,
            list(map(bytes, zip(*codes, strict=True))),
            _cut(response.T.astype("<f4").tobytes(), n),
            *(_cut(values.T.astype("<f8").tobytes(), n) for values in follow),
            # In base64 three bytes are four characters, so the rows can be written together.
            [bytes(-width % 3)] * n,
        ]
        texts = _cut(b2a_base64(b"".join(chain.from_iterable(zip(*parts, strict=True))), newline=False).decode(), n)
        if choices.allowed is not None and not choices.allowed.all():
            texts = [text + reasons for text, reasons in zip(texts, self._reasons(decided), strict=True)]
        return [text if len(text) <= LONGEST_BASIS else "" for text in texts]

    def _code(self, charge: NDArray[np.float64], response: NDArray[np.float32]) -> list[int] | None:
        """Return how the charge (J, n) of each request follows from the terms; None where that of one does not."""
        n = charge.shape[1]
        left, code = np.ones(n, dtype=np.bool_), np.zeros(n, dtype=np.int64)
        for number in (0, 1, 2):
            made = self._unit * response if number == 1 else self._unit * (number / 2)
            same = left & (charge == made).all(axis=0)
            code[same] = number
            left &= ~same
        found: list[int] | None = None if left.any() else code.tolist()
        return found

    def _reasons(self, decided: Decided) -> Iterator[str]:
        """Yield why each level of a request is forbidden: the first rule, else the model or the list, else the arm."""
        allowed, asked = decided.choices.allowed, decided.asked
        assert allowed is not None
        found = np.where(allowed, 0, ARM)
        if asked.allowed is not None:
            found[~asked.allowed] = MODEL
        if asked.by_rule is not None:
            found = np.where(asked.by_rule > 0, asked.by_rule, found)
        names = {0: "", MODEL: "list" if self.of_list else "model", ARM: "arm"} | {
            number: f"rule {rule.name}" for number, rule in enumerate(self.campaign.rules, 1)
        }
        texts: dict[tuple[int, ...], str] = {}
        for levels in map(tuple, found.T.tolist()):
            if levels not in texts:
                texts[levels] = "|" + ",".join(names[number] for number in levels) if any(levels) else ""
            yield texts[levels]


def _cut(rows: Rows, n: int) -> list[Rows]:
    """Return n parts of one length."""
    width = len(rows) // n
    return [rows[at : at + width] for at in range(0, len(rows), width)]


def commitment(salt: str, account_id: str, partner_id: str) -> str:
    """Return the digest that stands for account and partner of a decision; without the salt it tells nothing."""
    return sha256(canonical([salt, account_id, partner_id])).hexdigest()


def parted(basis: str) -> tuple[str, str]:
    """Return salt, or ``!`` with the commitment, and the rest of a basis.

    >>> parted("!" + 64 * "0" + "rest")[1], parted(16 * "s" + "rest")[0]
    ('rest', 'ssssssssssssssss')
    """
    end = 1 + 64 if basis.startswith(ERASED) else SALT
    return basis[:end], basis[end:]


def erased(basis: str, account_id: str, partner_id: str) -> str:
    """Return a basis without its salt: nobody can test any more which account and partner it was about.

    One that has none, and an empty one, stay as they are.
    """
    if not basis or basis.startswith(ERASED):
        return basis
    salt, rest = parted(basis)
    return f"{ERASED}{commitment(salt, account_id, partner_id)}{rest}"
