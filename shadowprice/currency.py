"""Currencies by ISO 4217: their symbols, names, and how many decimals their minor unit has."""

from __future__ import annotations

from dataclasses import dataclass

DECIMALS = {
    0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
    3: "BHD IQD JOD KWD LYD OMR TND",
    4: "CLF UYW",
}
"""Decimals → codes that do not have two (ISO 4217 list one, column "Minor unit")."""
_DECIMALS = {code: digits for digits, codes in DECIMALS.items() for code in codes.split()}


@dataclass(frozen=True, kw_only=True)
class Currency:
    """Format of money.

    symbol  written before an amount
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

    def write(self, minor: float) -> str:
        """Write minor units as an amount of major ones, with the decimals of the currency.

        >>> Currency.of("USD").write(125050), Currency.of("JPY").write(-300)
        ('$1,250.50', '−¥300')
        """
        return f"{'−' if minor < 0 else ''}{self.symbol}{abs(minor) / self.unit:,.{self.digits}f}"

    @classmethod
    def of(cls, code: str) -> Currency:
        """The currency of an ISO 4217 code; one without a name here is written by its code."""
        if code in _NAMED:
            return _NAMED[code]
        digits = _DECIMALS.get(code, 2)
        minor = f"1/{10**digits} {code}" if digits else code
        return cls(symbol=f"{code} ", major=code, minor=minor, digits=digits)


_NAMED = {
    "USD": Currency(),
    "CNY": Currency(symbol="CN¥", major="yuan", minor="fen"),
    "JPY": Currency(symbol="¥", major="yen", minor="yen", digits=0),
    "EUR": Currency(symbol="€", major="euros", minor="cents"),
    "GBP": Currency(symbol="£", major="pounds", minor="pence"),
}
