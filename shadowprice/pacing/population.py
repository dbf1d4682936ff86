"""Response curves of all accounts of a model and the requests that each made: what a price is solved on.

<folder>/<side>/account_id.parquet  accounts in the order of the bundle
                response.npy        float32 (J, N)
                amounts.npy         float32 (2, J, N), where the model has learned the amounts of responses
                activity.npy        float64 (N,), requests of each account in the past
                allowed.npy         bool (J, N), levels that may be given; only of a head that has such a rule
"""

import os
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from shadowprice.campaign import Side
from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput
from shadowprice.pacing.history import Traffic
from shadowprice.progress import ProgressBar
from shadowprice.responses.layers.heads import Head, curves_of, learns_amounts, rule_of

ROWS = 1 << 16
"""Embeddings read and turned into curves at a time."""
ACCOUNTS, RESPONSE, AMOUNTS, ACTIVITY = "account_id.parquet", "response.npy", "amounts.npy", "activity.npy"
ALLOWED = "allowed.npy"


@dataclass(frozen=True, eq=False)
class SideAccounts:
    """All accounts of one side.

    account_id  (N,), in the order of the curves
    curves      weighted by the requests of the past; those of a model are mapped from a file
    """

    account_id: pa.ChunkedArray
    curves: Curves

    def count(self, names: NDArray[np.str_], each: float) -> tuple[Curves, NDArray[np.str_]]:
        """The curves with ``each`` request more for every entry of ``names``, and the entries that are not known."""
        if not names.size:
            return self.curves, names
        asked, times = np.unique(names, return_counts=True)
        index = pc.index_in(self.account_id, value_set=pa.array(asked.tolist()))
        rows = np.flatnonzero(index.is_valid().to_numpy())
        place = np.asarray(index.drop_null().to_numpy(), dtype=np.int64)
        weight = np.array(self.curves.weight)
        weight[rows] += each * times[place]
        unknown = np.ones(asked.size, dtype=bool)
        unknown[place] = False
        return replace(self.curves, weight=weight), asked[unknown].repeat(times[unknown])

    def amounts(self, names: Sequence[str], unknown: NDArray[np.float32]) -> NDArray[np.float32]:
        """Law (2, J, n) of the amounts of some accounts, of a model that has learned them; ``unknown`` (2, J, 1)."""
        assert self.curves.amounts is not None
        index = pc.index_in(pa.array(list(names), pa.string()), value_set=self.account_id.combine_chunks())
        place = index.to_numpy(zero_copy_only=False)
        known = np.isfinite(np.asarray(place, dtype=np.float64))
        found = np.repeat(unknown, len(names), axis=-1)
        found[..., known] = self.curves.amounts[..., place[known].astype(np.int64)]
        return found


def write_population(folder: Path, heads: Mapping[Side, Head], embeddings: Path, traffic: Traffic) -> None:
    """Write the curves of all accounts of a bundle; where they are written already, only the activity is renewed.

    Args:
        folder: of one version of a model.
        heads: of the bundle.
        embeddings: its table of account_id, side and embedding.
        traffic: the accounts that asked and how often.

    Memory: a batch of embeddings, and the identifiers of a side.
    """
    for side, head in heads.items():
        if side not in traffic.accounts:
            continue
        place = folder / side
        if not place.exists():
            draft = folder / f".{side}.{uuid.uuid4().hex}"
            draft.mkdir(parents=True)
            try:
                _write_curves(draft, side, head, embeddings)
                os.replace(draft, place)
            except BaseException:
                shutil.rmtree(draft, ignore_errors=True)
                raise
        _write_activity(place, traffic, side)


def read_population(folder: Path, heads: Mapping[Side, Head]) -> dict[Side, SideAccounts]:
    """Map what :func:`write_population` wrote; sides that are not there are left out.

    Raises:
        InvalidInput: a file is damaged; the message names it.
    """
    accounts_of: dict[Side, SideAccounts] = {}
    for side, head in heads.items():
        place = folder / side
        if not (place / ACTIVITY).exists():
            continue
        try:
            account_id = pq.read_table(place / ACCOUNTS)["account_id"]
            response = np.load(place / RESPONSE, mmap_mode="r", allow_pickle=False)
            known = (place / AMOUNTS).exists()
            amounts = np.load(place / AMOUNTS, mmap_mode="r", allow_pickle=False) if known else None
            activity = np.load(place / ACTIVITY, allow_pickle=False)
            allowed = None if rule_of(head) is None else np.load(place / ALLOWED, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, pa.ArrowInvalid) as error:
            mend = "remove this folder and register the model again"
            raise InvalidInput(f"cannot be read ({error}); {mend}", field=str(place)) from error
        one = head.amounts(head.default_embedding[None])
        if amounts is None and one is not None:
            amounts = np.broadcast_to(one, (2, *response.shape))
        curves = Curves(head.levels, response, activity, place / RESPONSE, allowed=allowed, amounts=amounts)
        accounts_of[side] = SideAccounts(account_id, replace(curves, guards=head.guards))
    return accounts_of


def _write_curves(place: Path, side: Side, head: Head, embeddings: Path) -> None:
    table = pq.ParquetFile(embeddings)
    names = pq.read_table(embeddings, columns=["account_id"], filters=[("side", "=", side)])
    pq.write_table(names, place / ACCOUNTS)
    shape, rule = (head.levels.size, names.num_rows), rule_of(head)
    response = np.lib.format.open_memmap(place / RESPONSE, mode="w+", dtype=np.float32, shape=shape)
    allowed = None if rule is None else np.lib.format.open_memmap(place / ALLOWED, "w+", np.bool_, shape)
    amounts = None
    if learns_amounts(head):
        amounts = np.lib.format.open_memmap(place / AMOUNTS, mode="w+", dtype=np.float32, shape=(2, *shape))
    done = 0
    with ProgressBar(f"{side} curves", names.num_rows, "account") as shown:
        for batch in table.iter_batches(ROWS, columns=["side", "embedding"]):
            own = batch.filter(pc.equal(batch["side"], side))["embedding"]
            if not len(own):
                continue
            matrix = own.flatten().to_numpy(zero_copy_only=False).reshape(len(own), -1).astype(np.float32)
            curves, to = curves_of(head, matrix), slice(done, done + len(own))
            response[:, to] = curves.response
            if amounts is not None:
                amounts[..., to] = curves.amounts
            if rule is not None and allowed is not None:
                allowed[:, to] = rule(matrix)
            done += len(own)
            shown.advance(len(own))
    for written in (response, allowed, amounts):
        if written is not None:
            written.flush()


def _write_activity(place: Path, traffic: Traffic, side: Side) -> None:
    names = pq.read_table(place / ACCOUNTS)["account_id"]
    who = traffic.accounts[side]
    index = pc.index_in(names, value_set=pa.array(who.account_id.tolist()))
    activity = np.zeros(len(names))
    activity[index.is_valid().to_numpy()] = who.activity[np.asarray(index.drop_null().to_numpy(), dtype=np.int64)]
    draft = place / f".{uuid.uuid4().hex}.npy"
    np.save(draft, activity)
    os.replace(draft, place / ACTIVITY)
