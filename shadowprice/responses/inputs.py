"""Inputs of models: everything that a model may read beside the rows it is asked about."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from shadowprice.campaign import Segment
from shadowprice.documents import read_json
from shadowprice.errors import InvalidInput, NotFound
from shadowprice.files import write_whole
from shadowprice.graphs.snapshot import GraphSnapshot

if TYPE_CHECKING:
    from shadowprice.graphs.sessions import SessionLog

MANIFEST, GRAPHS = "inputs.json", "graphs.npz"
FRAMES = ("behaviours", "offers")
"""Inputs that are tables of their own."""
SUBJECTS = ("sessions", "segments")
"""Inputs that a data set as a whole is about: its models read them, and no other data set has them."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Inputs:
    """Everything that a model of a side may read beside its rows.

    snapshots   the graph at successive instants, in order of time; a row sees the latest one not after it
    sessions    voucher sessions with the graphs of the behavior around them, see :meth:`SessionLog.build`
    behaviours  account_id, level, action, ts: actions on offers; a row sees those before its ``snapshot_at``
    offers      level and numbers x_* of every offer, such as the mean yearly return of a fund
    segments    of a delivery: its levels are their numbers, and a model learns the worth of a place in each

    What a model reads is registered in :data:`shadowprice.responses.registry.MODELS`.
    """

    snapshots: Sequence[GraphSnapshot] = ()
    sessions: SessionLog | None = None
    behaviours: pd.DataFrame | None = None
    offers: pd.DataFrame | None = None
    segments: tuple[Segment, ...] = ()

    @property
    def there(self) -> frozenset[str]:
        """Names of the inputs that are given."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        absent = (
            name for name, value in values.items() if value is None or (isinstance(value, Sequence) and not value)
        )
        return frozenset(values) - frozenset(absent)

    def only(self, names: Collection[str]) -> Inputs:
        """Return some of the inputs."""
        empty: dict[str, Any] = {field.name: field.default for field in fields(self) if field.name not in names}
        return replace(self, **empty)

    @property
    def about(self) -> str:
        """The input that the rows are about, one of :data:`SUBJECTS`, or empty."""
        return next((name for name in SUBJECTS if name in self.there), "")

    def tables(self) -> Iterator[pd.DataFrame]:
        """Every table among the inputs."""
        if self.sessions is not None:
            yield from self.sessions.tables.as_dict().values()
        yield from (frame for name in FRAMES if (frame := getattr(self, name)) is not None)

    def save(self, folder: Path) -> None:
        """Write to ``folder``; :meth:`load` is the inverse."""
        for number, snapshot in enumerate(self.snapshots):
            snapshot.save(snapshot_folder(folder, number))
        self.save_others(folder)

    def save_others(self, folder: Path) -> None:
        """Write everything but the snapshots, which are in their folders: the last step of :meth:`save`."""
        if self.sessions is not None:
            self.sessions.graphs.save(folder / GRAPHS)
            for name, table in self.sessions.tables.as_dict().items():
                table.to_parquet(folder / f"{name}.parquet", index=False)
        for name in FRAMES:
            if (table := getattr(self, name)) is not None:
                table.to_parquet(folder / f"{name}.parquet", index=False)
        segments = [asdict(segment) for segment in self.segments]
        there = {"there": sorted(self.there), "snapshots": len(self.snapshots), "segments": segments}
        write_whole(folder / MANIFEST, json.dumps(there, indent=1))

    @classmethod
    def load(cls, folder: Path) -> Inputs:
        """Read what :meth:`save` wrote, or :class:`NotFound`."""
        meta = read_manifest(folder)
        frames = {name: pd.read_parquet(folder / f"{name}.parquet") for name in FRAMES if name in meta["there"]}
        return cls(
            snapshots=[GraphSnapshot.load(snapshot_folder(folder, number)) for number in range(meta["snapshots"])],
            sessions=_read_sessions(folder) if "sessions" in meta["there"] else None,
            segments=tuple(Segment(**segment) for segment in meta["segments"]),
            **frames,
        )

    def require(self, names: Collection[str], model: str) -> None:
        """Raise :class:`InvalidInput` where one of ``names`` is not given to the model called ``model``."""
        for name in names:
            if name not in self.there:
                problem = f"is missing: model {model!r} reads it; give inputs=Inputs({name}=…) with it"
                raise InvalidInput(problem, field=name)


def _read_sessions(folder: Path) -> SessionLog:
    # Serving reads this module and has no pandera.
    from shadowprice.graphs.sessions import SessionLog
    from shadowprice.graphs.voucher_graphs import VoucherGraphs
    from shadowprice.tables import SESSION_TABLES, SessionTables
    from shadowprice.tables.database import read_parquet

    tables = SessionTables(**{name: read_parquet(name, folder / f"{name}.parquet") for name in SESSION_TABLES})
    return SessionLog.build(tables, graphs=VoucherGraphs.load(folder / GRAPHS))


def snapshot_folder(folder: Path, number: int) -> Path:
    """Return the folder of a snapshot."""
    return folder / f"snapshot-{number:03d}"


def read_manifest(folder: Path, name: str = MANIFEST) -> dict[str, Any]:
    """Read a JSON file of a training set, or raise :class:`NotFound` or :class:`InvalidInput`."""
    path = folder / name
    if not path.exists():
        raise NotFound(f"no training set in {folder}; run `shadowprice job featurize` first")
    try:
        manifest: dict[str, Any] = read_json(path)
    except (OSError, ValueError) as error:
        fault = f"cannot be read: {error}; run `shadowprice job featurize` again"
        raise InvalidInput(fault, field=str(path)) from error
    return manifest


def about_in(folder: Path) -> str:
    """Return :attr:`Inputs.about` of the inputs in ``folder``; nothing else of them is read."""
    there = read_manifest(folder)["there"]
    return next((name for name in SUBJECTS if name in there), "")
