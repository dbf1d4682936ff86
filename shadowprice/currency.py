"""Currencies by ISO 4217: their symbols, names, and how many decimals their minor unit has; and offers as a unit."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation

from shadowprice.errors import InvalidInput

USD = "USD"
MISSING = "–"
DECIMALS = {
    0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
    3: "BHD IQD JOD KWD LYD OMR TND",
    4: "CLF UYW",
}
"""Decimals → codes that do not have two (ISO 4217 list one, column "Minor unit")."""
_DECIMALS = {code: digits for digits, codes in DECIMALS.items() for code in codes.split()}


OFFERS = "offers"
"""Code of a budget in numbers of offers, whose unit is no money."""


def check_code(code: str, field: str) -> str:
    """Return a code of ISO 4217 or :data:`OFFERS`, or raise :class:`InvalidInput` about the field."""
    if code != OFFERS and not re.fullmatch(r"[A-Z]{3}", code):
        raise InvalidInput(f"must be a code of ISO 4217 such as USD, or {OFFERS}; got {code!r}", field=field)
    return code


@dataclass(frozen=True, kw_only=True)
class Currency:
    """Format of money, or of numbers of offers.

    symbol  written before an amount; empty where the unit is an offer
    major   name of the unit in the plural; ``minor`` of the minor unit
    digits  decimals: 10^digits minor units are one major unit; 0 where there is no minor unit
    """

    symbol: str = "$"
    major: str = "dollars"
    minor: str = "cents"
    digits: int = 2

    @property
    def unit(self) -> int:
        """Minor units in one major unit.

        >>> Currency.of("JPY").unit, Currency.of("USD").unit, Currency.of("KWD").unit
        (1, 100, 1000)
        """
        return int(10**self.digits)

    @property
    def one(self) -> str:
        """One major unit in words.

        >>> Currency.of("EUR").one, Currency.of(OFFERS).one
        ('€1', 'offer')
        """
        return f"{self.symbol}1" if self.symbol else "offer"

    def write(self, minor: float) -> str:
        """Write minor units as an amount of major ones, with the decimals of the currency; or a number of offers.

        A dash where it is not known.

        >>> Currency.of("USD").write(125050), Currency.of("JPY").write(-300), Currency.of(OFFERS).write(1250)
        ('$1,250.50', '−¥300', '1,250 offers')
        """
        if not math.isfinite(minor):
            return MISSING
        sign = "−" if minor < 0 else ""
        if not self.symbol:
            count = f"{abs(minor):,.0f}" if abs(minor) >= 100 or minor == round(minor) else f"{abs(minor):,.3g}"
            return f"{sign}{count} {self.one if minor == 1 else self.major}"
        return f"{sign}{self.symbol}{abs(minor) / self.unit:,.{self.digits}f}"

    def write_mean(self, minor: float) -> str:
        """Mean of many amounts, with two decimals more than one of them.

        >>> Currency().write_mean(12.345)
        '$0.1235'
        """
        return replace(self, digits=self.digits + 2).write(100 * minor)

    def read(self, text: str, *, field: str, whole: bool = True) -> float:
        """Minor units of an amount of major units, such as ``5000``, ``5,000.50`` or ``$5,000.50``.

        Args:
            text: digits, with a decimal point; commas between thousands, and the symbol, may be left out.
            field: name of what is read, for the message.
            whole: refuse what is not a whole number of minor units; a mean may be between two of them.

        >>> Currency().read("$5,000.50", field="--budget")
        500050.0

        Raises:
            InvalidInput: it is no such amount.
        """
        digits = text.strip().removeprefix(self.symbol.strip()).strip()
        try:
            if not re.fullmatch(r"\d{1,3}(,\d{3})+(\.\d+)?|\d+(\.\d*)?|\.\d+", digits):
                raise InvalidOperation
            minor = Decimal(digits.replace(",", "")) * self.unit
        except InvalidOperation:
            example = self.write(500_000).removeprefix(self.symbol).replace(",", "")
            raise InvalidInput(
                f"must be an amount in {self.major} such as {example}, got {text!r}", field=field
            ) from None
        if whole and minor % 1:
            raise InvalidInput(f"must be whole {self.minor}, got {text!r}", field=field)
        return float(minor)

    @classmethod
    def of(cls, code: str) -> Currency:
        """The currency of an ISO 4217 code, or of :data:`OFFERS`; one without a name here is written by its code."""
        if code in _NAMED:
            return _NAMED[code]
        digits = _DECIMALS.get(code, 2)
        minor = f"1/{10**digits} {code}" if digits else code
        return cls(symbol=f"{code} ", major=code, minor=minor, digits=digits)


_NAMED = {
    USD: Currency(),
    "CNY": Currency(symbol="CN¥", major="yuan", minor="fen"),
    "JPY": Currency(symbol="¥", major="yen", minor="yen", digits=0),
    "EUR": Currency(symbol="€", major="euros", minor="cents"),
    "GBP": Currency(symbol="£", major="pounds", minor="pence"),
    OFFERS: Currency(symbol="", major=OFFERS, minor=OFFERS, digits=0),
}
