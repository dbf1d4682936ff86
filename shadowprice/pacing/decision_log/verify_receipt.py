"""Verify a receipt: ``python verify_receipt.py RECEIPT [SHA256 of a published price]``. Needs Python 3.11 alone.

It recomputes level, probability and head of the log. Without a checksum, a receipt may only agree with itself.
"""

import json
import sys
from base64 import b64decode
from hashlib import blake2b, sha256
from itertools import accumulate, islice
from struct import unpack
from typing import Any


def need(holds: object, what: str) -> None:
    """Raise an error where something does not hold."""
    if not holds:
        raise ValueError(what)


def canonical(value: Any, indent: int | None = None) -> bytes:
    """JSON of one form."""
    return json.dumps(value, sort_keys=True, indent=indent, separators=(",", ": " if indent else ":")).encode()


def draw(name: str, person: bytes, key: str = "") -> int:
    """Whole number below 2^64 of a request, to break a tie or to explore, or of the unit of an experiment."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8, person=person, key=key.encode()).digest(), "big")


def levels_of(basis: str, terms: Any) -> Any:
    """Levels as the rule read them, the digest of the terms, and the probability of exploring."""
    packed, _, forbidden = basis.partition("|")
    raw, unit, priced = b64decode(packed, validate=True), terms["unit_costs"], terms["priced"]
    n, start = len(unit), 13 + len(priced) * (not terms["delivery"])
    curve = unpack(f"<{n}f", raw[start : start + 4 * n])
    rest = iter([unpack("<d", raw[at : at + 8])[0] for at in range(start + 4 * n, len(raw) - 7, 8)])
    value = list(islice(rest, n)) if raw[12] & 4 else [terms["weight"] * each for each in curve]
    known = {1: [cost * each for cost, each in zip(unit, curve, strict=True)], 2: unit}
    charges = {priced[k]: known.get(code) or list(islice(rest, n)) for k, code in enumerate(raw[13:start]) if code}
    of = [{priced[i]: 1.0} if terms["delivery"] else {k: c[i] for k, c in charges.items()} for i in range(n)]
    keys = ("offer", "unit_cost", "response", "value", "charges", "forbidden_by")
    rows = zip(terms["offers"], unit, curve, value, of, (forbidden or "," * (n - 1)).split(","), strict=True)
    return [dict(zip(keys, row, strict=True)) for row in rows], raw[:12], terms["exploration"][raw[12] & 3]


def decide(levels: Any, price: Any, terms: Any, exploration: float, drawn: list[float]) -> Any:
    """Level, how it was found, and the probability of each: argmax value − λ·charge; a draw decides between ties."""
    prices = {name: price["prices"].get(name, 0.0) for name in terms["priced"]}
    charge = [sum(prices[name] * amount for name, amount in level["charges"].items()) for level in levels]
    expense = charge if any(prices.values()) else [sum(level["charges"].values()) for level in levels]
    score = [level["value"] - amount for level, amount in zip(levels, charge, strict=True)]
    allowed = [place for place, level in enumerate(levels) if not level["forbidden_by"]]
    top = max(allowed, key=lambda place: (score[place], -place))
    near = score[top] - 1e-9 * (abs(levels[top]["value"]) + abs(charge[top]))
    best = [place for place in allowed if score[place] >= near]
    cheap = min(best, key=lambda place: (expense[place], -score[place], place))
    dear = max(best, key=lambda place: (expense[place], score[place], -place))
    tied = charge[dear] > charge[cheap]
    share = price["tie_share"] if tied else 0.0
    level, how = (dear if drawn[0] < share else cheap), "tie" if tied else "optimal"
    law = [w * (place in allowed) for place, w in enumerate(terms.get("weights", [1.0] * len(levels)))]
    ends = list(accumulate(law))
    if drawn[1] < exploration:
        level, how = min(sum(end <= drawn[1] / exploration * ends[-1] for end in ends), allowed[-1]), "explored"
    chosen = [(each == cheap) * (1.0 - share) + (each == dear) * share for each in range(len(levels))]
    return level, how, [w * exploration / ends[-1] + (1.0 - exploration) * c for w, c in zip(law, chosen, strict=True)]


def answers(level: int, chances: list[float], terms: Any, free: bool, limited: bool) -> Any:
    """Yield what the ledger may answer: level, its probability, those of all; ``limited``: in place of ``level``."""
    if terms["delivery"] and limited:  # the segment is full, so another one has its share
        rest = [0.0 if each == level else chance for each, chance in enumerate(chances)]
        more = [min(chance + chances[level], 1.0) for chance in rest]
        yield from ((o, more[o], [*rest[:o], more[o], *rest[o + 1 :]]) for o in range(len(rest)))
        yield -1, chances[level], rest
        return
    for left in sorted({0, *terms["reserved"]}):  # the money that was left, as far as it matters
        fits = [most <= left for most in terms["reserved"]]
        kept = [chance if fit else 0.0 for chance, fit in zip(chances, fits, strict=True)]
        missing = min(sum(chance for chance, fit in zip(chances, fits, strict=True) if not fit), 1.0)
        kept[0] = min(kept[0] + missing, 1.0) if free else kept[0]
        if fits[level] != limited:
            yield (level, kept[level], kept) if not limited else (0, kept[0], kept) if free else (-1, missing, kept)


def arm_of(terms: Any, owner: Any, arm: str) -> str:
    """Arm by the salted hash of the unit; the recorded one where the receipt does not have the unit."""
    test, held, account = terms["experiment"], terms["holdout"], owner.get("account_id")
    if account is None or arm == "canary":
        return arm
    if held and draw(account, b"company", held["key"]) * 10_000 >> 64 < held["share"]:
        return "company_holdout"
    unit = owner.get({"account": "account_id", "partner": "partner_id"}.get(test["unit"], "")) if test else ""
    if not unit:
        return "unassigned" if unit == "" else arm
    place = draw(unit, b"arm", test["salt"]) * 10_000 >> 64
    taken = [p.get("name") or p["arm"] for p in [*test["arms"], *test.get("raises", [])] for _ in range(p["share"])]
    return taken[place] if place < len(taken) else "unassigned"


def root_of(node: bytes, place: int, rows: int, path: list[str]) -> bytes:
    """Root of the tree of the log, from one leaf and the hashes beside its way up (RFC 9162, 2.1.3)."""
    need(0 <= place < rows and (rows > 1) == bool(path), "the row is not in the log")
    if rows == 1:
        return node
    half, beside = 1 << (rows - 1).bit_length() - 1, bytes.fromhex(path[-1])
    if place < half:
        return sha256(b"\1" + root_of(node, place, half, path[:-1]) + beside).digest()
    return sha256(b"\1" + beside + root_of(node, place - half, rows - half, path[:-1])).digest()


def verify(text: bytes, published: str = "") -> Any:
    """Return a receipt that holds; any other raises an error."""
    receipt = json.loads(text)
    need(canonical(receipt, 1) + b"\n" == text and len(receipt) == 8, "it is not written as receipts are")
    keys = ("draws", "entry", "head", "levels", "owner", "price", "proof", "terms")
    drawn, entry, head, levels, owner, price, proof, terms = map(receipt.get, keys)
    for record in (price, head):
        body = {key: value for key, value in record.items() if key != "sha256"}
        need(sha256(canonical(body)).hexdigest() == record["sha256"], "a price fails its checksum")
    need(published in ("", head["sha256"]), "the head is not that of the published price")
    row, *path = proof
    need(type(row) is int and [bytes.fromhex(each).hex() for each in path] == path, "the proof has another form")
    root = root_of(sha256(b"\0" + canonical(entry)).digest(), row - 1, head["log_rows"], path)
    need(root.hex() == head["log_head"], "the entry is not in the log of the head")
    own = sha256(canonical([owner.get(name) for name in ("salt", "account_id", "partner_id")])).hexdigest()
    need(owner == {"erased": entry["owner"]} or (len(owner) == 3 and own == entry["owner"]), "another owner")
    found, seal, exploration = levels_of(entry["basis"], terms)
    need(sha256(canonical(terms)).digest()[:12] == seal, "the terms are not those of the entry")
    draws = [draw(entry["request_id"], purpose) / 2.0**64 for purpose in (b"", b"explore")]
    read = [found, draws, entry["side"], entry["price_version"], terms["price"], terms["campaign"], head["campaign"]]
    told = [levels, drawn, terms["side"], price["version"], price["sha256"], price["campaign"], price["campaign"]]
    need(canonical(read) == canonical(told), "levels, draws, side, price or campaign are not those of the entry")
    need(entry.get("arm", "unassigned") == arm_of(terms, owner, entry.get("arm", "unassigned")), "another arm")
    level, how, chances = decide(levels, price, terms, exploration, drawn)
    need(entry["reason"] not in {"optimal", "tie", "explored"} - {how}, f"the level is {how}")
    free = terms["reserved"][0] == terms["unit_costs"][0] == 0 and levels[0]["forbidden_by"] in ("", "arm")
    had = [entry["level"], entry["propensity"], *entry["propensities"]]
    turns = answers(level, chances, terms, free, "limited_by" in entry)
    close = (max(abs(a - b) for a, b in zip([place, p, *all_], had, strict=True)) < 1e-9 for place, p, all_ in turns)
    need(any(close), f"the rule gives level {level} with probabilities {chances}")
    need(entry["incentive"] == [*terms["unit_costs"], 0][entry["level"]], "the incentive is not that of the level")
    return receipt


if __name__ == "__main__":
    with open(sys.argv[1], "rb") as file:
        held = verify(file.read(), *sys.argv[2:3])
    print("valid: request {request_id}, level {level}; head".format(**held["entry"]), held["head"]["sha256"])
