"""``python -m benchmarks.service.growth``: bytes per decision of the sqlite file and of the decision log.

Identifiers are random version 4 UUIDs, so pages of the indexes are as full as in use. A quarter of the decisions is
redeemed, and the other authorizations are released. Other load on the machine does not change sizes.
"""

import sys
import tempfile
import time
import uuid
from base64 import b64encode
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.service.capacity import BATCH, CAMPAIGN, LEVELS, authorize, settle, size_of
from serving.ledger.clock import microseconds
from serving.ledger.log import LogWriter
from serving.ledger.opening import open_store
from serving.ledger.store import Store
from shadowprice.command.options import main_of

DECISIONS = 200_000
REDEEMED = 0.25
YEAR = 100_000_000


def measure(decisions: int = DECISIONS, seed: int = 0) -> dict[str, float]:
    """Bytes per decision of the ``store`` and of the ``log``, whose blocks of a million rows are merged at the end."""
    random = Random(seed)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        store = open_store(CAMPAIGN, folder / "ledger.db")
        try:
            log = LogWriter(store, folder / "log")
            for _ in range(0, decisions, BATCH):
                _serve(store, random)
                log.write()
            while log.compact():
                pass
            used = size_of(folder / "ledger.db")
        finally:
            store.close()
        logged = sum(path.stat().st_size for path in (folder / "log").iterdir())
    return {"store": used / decisions, "log": logged / decisions}


def _serve(store: Store, random: Random) -> None:
    now, names = time.time(), [_uuid(random) for _ in range(BATCH)]
    level = [random.randrange(1, len(LEVELS)) for _ in names]
    response = [random.random() for _ in names]
    columns: dict[str, list[Any]] = {
        "request_id": names,
        "account_id": [f"account-{random.randrange(10**7):010d}" for _ in names],
        "side": ["customer"] * BATCH,
        "level": level,
        "incentive": [LEVELS[each] for each in level],
        "response": response,
        "expected_cost": [LEVELS[each] * share for each, share in zip(level, response, strict=True)],
        "propensity": [1.0] * BATCH,
        "propensities": [[float(other == each) for other in range(len(LEVELS))] for each in level],
        "reason": ["optimal"] * BATCH,
        "features_at": [now - random.randrange(86_400) for _ in names],
        # As long as that of ten levels and one budget.
        "basis": [b64encode(random.randbytes(66)).decode() for _ in names],
    }
    authorize(store, columns)
    kept = {name: LEVELS[each] for name, each in zip(names, level, strict=True) if random.random() < REDEEMED}
    content = '{{"request_id":"{}","redeemed":true,"cost":{}}}'
    settle(store, [(_uuid(random), name, cost, content.format(name, cost)) for name, cost in kept.items()])
    store.release([name for name in names if name not in kept], microseconds(datetime.now(UTC))).result()


def _uuid(random: Random) -> str:
    return str(uuid.UUID(int=random.getrandbits(128), version=4))


def growth(decisions: int = DECISIONS) -> None:
    """Print the bytes per decision, and what a year of 10⁸ needs."""
    for name, value in measure(decisions).items():
        print(f"{name}: {value:,.0f} bytes a decision, {value * YEAR / 2**30:,.1f} GiB for {YEAR:,}")


main = main_of(growth, "python -m benchmarks.service.growth")

if __name__ == "__main__":
    sys.exit(main())
