"""The witness: a file outside the store that notes how many records a campaign has there.

A ledger that runs notices by itself that its store lost records. One that is started anew only has the witness. It is
written every few seconds, so records of the last seconds before ledger and store were both lost are not noted.
"""

from dataclasses import dataclass, field
from pathlib import Path

import orjson

from serving.ledger.seen import Seen
from shadowprice.documents import read_json
from shadowprice.errors import Conflict, Unavailable
from shadowprice.files import write_whole


@dataclass
class Witness:
    """The file ``path`` of one campaign; None keeps none."""

    path: Path | None
    campaign: str
    _noted: Seen | None = field(default=None, init=False)

    def check(self, found: Seen) -> None:
        """Refuse a store that has fewer records than were noted; a missing file refuses nothing.

        Raises:
            Conflict: the store went back, or the file belongs to another campaign or is damaged.
            Unavailable: the file cannot be read.
        """
        noted = self._read()
        if noted is not None and noted.lost_by(found):
            raise Conflict(
                f"the ledger's store went back: it holds {found.told()}, and the witness {self.path} has noted "
                f"{noted.told()}"
                + ("" if noted.epoch == found.epoch else " of a store with another epoch")
                + "; restore the store, or recover with `python -m serving.recover` (docs/how-to/restore.md); or "
                "delete the witness to start anew, knowing that money may be granted again"
            )

    def note(self, seen: Seen) -> None:
        """Write what was seen where it changed; what another process noted of the same store is kept.

        Raises:
            Unavailable: the file cannot be written.
        """
        if self.path is None or seen == self._noted:
            return
        before = self._read()
        joined = seen.joined(before[1:]) if before is not None and before.epoch == seen.epoch else seen
        content = orjson.dumps({"campaign": self.campaign, **joined._asdict()})
        try:
            write_whole(self.path, content, durable=True)
        except OSError as error:
            raise Unavailable(f"the ledger's witness {self.path} cannot be written: {error}") from error
        self._noted = seen

    def _read(self) -> Seen | None:
        if self.path is None:
            return None
        try:
            content = read_json(self.path)
            campaign, seen = (
                content["campaign"],
                Seen(**({"moves": 0} | {name: content[name] for name in content.keys() & Seen._fields})),
            )
            noted = Seen(str(seen.epoch), *map(int, seen[1:]))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Unavailable(f"the ledger's witness {self.path} cannot be read: {error}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise Conflict(
                f"the ledger's witness {self.path} is damaged: {error!r}; delete it to adopt the store"
            ) from None
        if campaign != self.campaign:
            raise Conflict(f"the ledger's witness {self.path} is of campaign {campaign!r}; name another file")
        return noted
