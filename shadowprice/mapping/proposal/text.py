"""The text of a first mapping, with a comment at each line that the user must check."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from shadowprice.currency import OFFERS
from shadowprice.errors import Conflict, Unavailable
from shadowprice.mapping.keys import currency_code, time_zone
from shadowprice.mapping.proposal.guesses import Proposed
from shadowprice.mapping.proposal.parts import Part, Proposal
from shadowprice.mapping.proposal.profile import Profile

FILE = "mapping.yaml"
CHECK = "CHECK"
"""First word of the comment of a line that only the user can confirm."""
_PLAIN = re.compile(r"[^\W\d_][\w./-]*(?: [\w./-]+)*|\d[\d.:-]*")


def write_mapping(folder: Path, proposal: Proposal, *, currency: str, timezone: str, campaign: str) -> Path:
    """Write ``mapping.yaml`` into a folder and return its path; the folder is made where it is missing.

    Without a ``currency``, amounts are in US dollars, and offers without an amount are counted.

    Raises:
        Conflict: there is a mapping already.
        InvalidInput: there is no such currency or time zone.
        Unavailable: the folder cannot be written.
    """
    currency_code(currency or OFFERS)
    time_zone(timezone, "timezone")
    path = folder / FILE
    text = "\n".join(lines(proposal, currency=currency, timezone=timezone, campaign=campaign)) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            try:
                file.write(text)
                file.flush()
            except OSError:
                # What is there is not overwritten: a part of the file would be in the way.
                path.unlink()
                raise
    except FileExistsError as error:
        raise Conflict(f"{path} is there already and is not overwritten; remove it, or name another folder") from error
    except OSError as error:
        raise Unavailable(f"{path} cannot be written: {error}") from error
    return path


def lines(proposal: Proposal, *, currency: str, timezone: str, campaign: str) -> Iterator[str]:
    """Yield the lines of the mapping."""
    yield f"# A first mapping. Lines with {CHECK} are guesses that only you can confirm."
    code = currency or (OFFERS if proposal.counted else "USD")
    unit = "of all amounts; they are in its major unit, or add `money: minor`"
    if code == OFFERS:
        unit = "costs and budget are numbers of offers; where they are money, its code of ISO 4217"
    yield f"currency: {code} # {CHECK}: {unit}"
    if not proposal.has_zone:
        yield f"timezone: {timezone} # {CHECK}: of times without a zone"
    yield ""
    yield "sources:"
    profiles = {part.profile.source.name: part.profile for part in proposal.parts}
    for name, profile in profiles.items():
        yield f"  {name}: {_source(profile)}" + (f" # {CHECK}: {_line(profile.doubt)}" if profile.doubt else "")
    yield ""
    yield "campaign:"
    yield f"  campaign_id: {_scalar(campaign)}"
    yield from _campaign(proposal)
    yield ""
    yield "tables:"
    tables: dict[str, list[Part]] = {}
    for part in proposal.parts:
        tables.setdefault(part.table, []).append(part)
    for table, parts in tables.items():
        yield f"  {table}:"
        for part in parts:
            block = list(_part(part))
            if len(parts) > 1:
                yield f"    - {block[0]}"
                yield from (f"      {line}" for line in block[1:])
            else:
                yield from (f"    {line}" for line in block)


def _campaign(proposal: Proposal) -> Iterator[str]:
    """Yield the lines of the campaign after its name; that of a voucher log has defaults for all of them."""
    if not proposal.starts_at:
        yield f"  # budget_limit: 500 # {CHECK}: of a day; left out, what redemptions of the last month cost a day"
        return
    yield f"  starts_at: {proposal.starts_at} # {CHECK}: the day after the last offer of the log"
    yield "  hours: 24"
    yield "  budget_name: incentives"
    yield "  budget_form: total"
    brought = "offers that were given" if proposal.counted else "value that was redeemed"
    yield f"  budget_limit: {proposal.budget_limit} # {CHECK}: {brought} on a mean day of the log"
    if proposal.counted:
        yield f"  cost_basis_customer: on_grant # {CHECK}: counts when given; on_response: when redeemed"
    else:
        yield f"  cost_basis_customer: on_response # {CHECK}: paid when redeemed; on_grant: when given"


def _source(profile: Profile) -> str:
    source = profile.source
    keys: dict[str, str] = {"file": _scalar(source.file)}
    if source.delimiter:
        keys["delimiter"] = json.dumps(source.delimiter)
    if source.encoding:
        keys["encoding"] = source.encoding
    if source.header:
        keys["header"] = str(source.header)
    if source.delimiter and source.quote != '"':
        keys["quote"] = _quoted(source.quote)
    if source.decimal != ".":
        keys["decimal"] = json.dumps(source.decimal)
    if source.thousands:
        keys["thousands"] = json.dumps(source.thousands)
    if len(source.null) > 1:
        keys["null"] = f"[{', '.join(_scalar(text) for text in source.null if text)}]"
    return _flow(keys)


def _part(part: Part) -> Iterator[str]:
    yield f"from: {part.profile.source.name}"
    yield "columns:"
    for name, column in part.columns.items():
        yield f"  {name}: {_origin(column)}{_comment(column)}"
    for name in part.missing:
        yield f"  # {CHECK}: no column was found for {name}, which is required"
    for name, value in part.settings.items():
        yield f"{name}: {_origin(value)}{_comment(value)}"
    if part.numbers or part.texts:
        yield f"features: # {CHECK}: known before the offer was made"
        for kind, names in (("numbers", part.numbers), ("texts", part.texts)):
            if names:
                yield f"  {kind}: [{', '.join(map(_scalar, names))}]"
    if part.unused:
        yield f"# not used: {', '.join(map(_line, part.unused))}"
    if part.profile.unread:
        yield f"# not used, as more than one column has the name: {', '.join(map(_line, part.profile.unread))}"


def _origin(column: Proposed) -> str:
    if not column.keys:
        return _scalar(column.own)
    keys = {"column": _scalar(column.own)} if column.own else {}
    for key, value in column.keys.items():
        if isinstance(value, Mapping):
            keys[key] = _flow({_scalar(own): _scalar(shown) for own, shown in value.items()})
        else:
            keys[key] = _scalar(value)
    return _flow(keys)


def _comment(column: Proposed) -> str:
    if not column.reason:
        return ""
    reason = _line(column.reason)
    return f" # {CHECK}: {reason}" if column.check else f" # {reason}"


def _flow(given: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{key}: {value}" for key, value in given.items()) + "}"


def _scalar(text: str) -> str:
    """Return a text as YAML reads it back, in quotes where it needs them."""
    return text if _PLAIN.fullmatch(text) else _quoted(text)


def _quoted(text: str) -> str:
    """Return a text in double quotes; what cannot be printed, or seen, is escaped."""
    shown = json.dumps(text, ensure_ascii=False)
    return "".join(sign if sign.isprintable() else f"\\U{ord(sign):08x}" for sign in shown)


def _line(text: str) -> str:
    """Return a text of a comment in one line."""
    return "".join(sign if sign.isprintable() else " " for sign in text)
