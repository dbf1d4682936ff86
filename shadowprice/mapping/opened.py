"""A source that was read: its columns, the file and line of each row, and SQL of its texts."""

import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from shadowprice.errors import InvalidInput
from shadowprice.mapping.description import Source
from shadowprice.tables.coercion import REFUSED

ROW = "\ufdd0row"
"""Column of each view: the place of the row in its source, counted from 0. No user's column has this name."""
SPACES = " \t\u00a0\u2007\u202f\u200b\ufeff"
"""Characters that may stand around a number, a time or a flag: those of spreadsheets and web pages too."""


@dataclass(frozen=True)
class Piece:
    """Rows of one file: its name, its first row in the source, and the line of each of its rows where it has lines."""

    label: str
    first: int
    line_of: Callable[[int], int] | None = None


@dataclass(frozen=True, kw_only=True)
class Opened:
    """Columns of a source.

    names   in the order of the file
    pieces  files of the source, in the order of their rows
    """

    source: Source
    names: tuple[str, ...]
    pieces: Sequence[Piece] = ()

    def sql(self, name: str) -> str:
        """Return a column as SQL over the view of the source.

        Raises:
            InvalidInput: the source has no such column, or more than one.
        """
        return quoted(self.alias(self.place(name)))

    def place(self, name: str) -> int:
        """Return the position of a column; raises as :meth:`sql` does."""
        wanted = unicodedata.normalize("NFC", name.strip())
        places = [place for place, own in enumerate(self.names) if own == wanted and own]
        if not places:
            raise InvalidInput(f"{self.source.label} has no column {name!r}; it has {', '.join(self.names)}")
        if len(places) > 1:
            columns = " and ".join(str(place + 1) for place in places)
            raise InvalidInput(f"{self.source.label} has {name!r} twice, in columns {columns}; rename one of them")
        return places[0]

    def alias(self, place: int) -> str:
        """Return the name of a column in the view: its own, unless SQL takes that of another column for the same."""
        name = self.names[place]
        same = Counter(own.casefold() for own in self.names)[name.casefold()]
        return name if name and same == 1 else f"\ufdd0{place}"

    def places_of(self, wanted: Collection[str] | None) -> list[int]:
        """Return the positions of the columns with these names in any case; None stands for all.

        Those whose name stands twice are left out.
        """
        if wanted is None:
            return [place for place, name in enumerate(self.names) if name and self.names.count(name) == 1]
        names = {unicodedata.normalize("NFC", name.strip()).casefold() for name in wanted}
        return [place for place in self.places_of(None) if self.names[place].casefold() in names]

    def at(self, row: int) -> tuple[str, int, int | None]:
        """Return file, row and line of a row of the source; lines are counted from 1, None where there are none."""
        piece = next((block for block in reversed(self.pieces) if block.first <= row), None)
        if piece is None:
            return self.source.label, row, None
        own = row - piece.first
        return piece.label, own, None if piece.line_of is None else piece.line_of(own)


@dataclass(frozen=True)
class Part:
    """Rows of a canonical table.

    query    gives its columns, and the row of the source; rows in the order of the source
    columns  of the table
    source   name of the file, for messages
    labels   canonical column → the user's own
    opened   the source, None where the rows follow from other tables or are in the mapping
    """

    query: str
    columns: tuple[str, ...]
    source: str
    labels: Mapping[str, str]
    opened: Opened | None = None


def quoted(name: str) -> str:
    """Return a name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def trimmed(text: str) -> str:
    """Return a text without the spaces around it."""
    # A text of ASCII has as many bytes as characters; trimming it takes a third of the time.
    return f"CASE WHEN strlen({text}) = length({text}) THEN trim({text}) ELSE trim({text}, {literal(SPACES)}) END"


def matches(text: str, pattern: str) -> str:
    """Return whether a whole text matches a pattern."""
    return f"regexp_full_match({text}, {literal(pattern)})"


def refused(reason: str, text: str) -> str:
    """Return a cell that the check of the tables refuses for this reason."""
    return f"{literal(REFUSED + reason + REFUSED)} || {text}"
