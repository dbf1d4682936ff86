"""Readiness is false while the ledger cannot do its work, though nobody calls."""

import json
import resource
import sqlite3
import urllib.error
import urllib.request
from contextlib import ExitStack, suppress
from dataclasses import replace

import pytest

from serving.ledger.log import LogWriter
from serving.ledger.opening import open_store
from serving.local.launch import Service, free_port
from serving.predictor.ledger.client import Authorizer
from serving.recover import recover
from shadowprice.campaign import Terms
from shadowprice.errors import Conflict, Unavailable
from shadowprice.pacing.decision_log.served import read_log


@pytest.fixture
def start(tmp_path):
    """Starts a ledger process on ``tmp_path``'s file; it may not be ready."""
    with ExitStack() as running:

        def starting(campaign, *options):
            file = tmp_path / "campaign.json"
            file.write_text(json.dumps(campaign.to_dict()))
            command = ["serving.ledger", "--campaign-file", str(file), "--db", str(tmp_path / "ledger.db")]
            command += ["--sweep-seconds", "0.1", "--log-seconds", "0.1", *options]
            port = free_port()
            service = Service("ledger", [*command, "--port", str(port)], port, "/readyz", tmp_path / "ledger.log")
            running.callback(service.stop)
            return service

        yield starting


def readiness(service):
    try:
        with urllib.request.urlopen(service.url + "/readyz", timeout=5) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def wait_for(service, status, eventually):
    eventually(lambda: readiness(service)[0] == status)
    return readiness(service)[1]


@pytest.fixture
def eventually():
    import time

    def waiting(true, seconds=30.0):
        deadline = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    return waiting


def test_a_full_disk_is_seen_without_a_caller_and_its_end_too(start, kit, eventually):
    service = start(kit.campaign())
    service.wait_ready(60)
    # What a full disk does: no file of the process grows.
    before = resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (1, before[1]))
    assert "cannot write" in wait_for(service, 503, eventually)["error"]
    resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, before)
    wait_for(service, 200, eventually)


def damage(path):
    """Overwrite all pages but the first and the schema's."""
    content = bytearray(path.read_bytes())
    size = int.from_bytes(content[16:18], "big")
    with sqlite3.connect(path) as database:
        (root,) = database.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'decision'").fetchone()
    database.close()
    content = bytearray(path.read_bytes())
    content[(root - 1) * size : root * size] = b"\xff" * size
    path.write_bytes(content)


def filled(campaign, path, kit, count=50):
    ledger = kit.open(campaign, path)
    for number in range(count):
        ledger.authorize(kit.item(f"r{number}", level=0))
    return ledger


def test_a_damaged_file_is_refused_at_the_start(kit, tmp_path):
    campaign = kit.campaign()
    path = tmp_path / "ledger.db"
    filled(campaign, path, kit).close()
    damage(path)
    with pytest.raises(Unavailable, match=r"damaged.*recover"):
        open_store(campaign, path)


def test_a_file_that_is_damaged_while_it_serves_is_noticed_without_a_caller(kit, tmp_path):
    campaign = kit.campaign()
    path = tmp_path / "ledger.db"
    filled(campaign, path, kit).close()
    store = open_store(campaign, path)
    try:
        store.check()
        assert store.trouble is None
        with path.open("r+b") as file:
            damaged_bytes(file, path)
        for _ in range(20):
            store._health._rest_until = 0.0
            with suppress(Unavailable):
                store.check()
        assert "damaged" in store.trouble
        assert not store.alive
        with pytest.raises(Unavailable, match="damaged"):
            store.totals()
        with pytest.raises(Unavailable, match="damaged"):
            store.expire(0).result(20)
    finally:
        store.close()


def damaged_bytes(file, path):
    """Overwrite the root page of the decisions in a file that is in use."""
    reading = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    (root,) = reading.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'decision'").fetchone()
    (size,) = reading.execute("PRAGMA page_size").fetchone()
    reading.close()
    file.seek((root - 1) * size)
    file.write(b"\xff" * size)


def test_other_levels_than_those_of_the_decisions_are_refused_at_the_start(open_ledger, kit):
    ledger = open_ledger()
    ledger.authorize(kit.item("r", level=2))
    campaign = ledger.campaign
    ledger.close()
    customer, merchant = campaign.sides["customer"], campaign.sides["merchant"]
    for sides in ({"merchant": merchant}, {"customer": Terms(levels=(0, 60, 130)), "merchant": merchant}):
        changed = replace(campaign, sides=sides)
        with pytest.raises(Conflict, match=r"customer.*\[0, 50, 130\].*new name"):
            open_ledger(changed)
    same = replace(campaign, sides={"merchant": merchant, "customer": customer})
    assert open_ledger(same).money() == (130, 0)


def test_levels_may_change_while_nothing_is_decided(open_ledger, kit):
    ledger = open_ledger()
    campaign = ledger.campaign
    ledger.close()
    changed = replace(campaign, sides={"merchant": Terms(levels=(10, 20))})
    assert open_ledger(changed).money() == (0, 0)


def test_the_predictor_is_not_ready_with_a_ledger_of_other_levels(start, kit):
    campaign = kit.campaign()
    service = start(campaign)
    service.wait_ready(60)
    own = {side: terms.incentives for side, terms in campaign.sides.items()}
    authorizer = Authorizer(service.url, campaign.name)
    authorizer.check(own)
    with pytest.raises(Unavailable, match=r"\[0, 50, 130\].*\[0, 55\].*campaign file"):
        authorizer.check(own | {"customer": (0, 55)})


def test_a_store_that_ends_before_its_log_cannot_serve_before_it_is_recovered(open_ledger, kit, tmp_path):
    ledger = open_ledger()
    ledger.authorize(*(kit.item(f"r{number}", level=0) for number in range(3)))
    LogWriter(ledger.store, tmp_path / "log").write()
    campaign = ledger.campaign
    emptied = open_ledger(replace(campaign, name=campaign.name + "-restored"))
    writer = LogWriter(emptied.store, tmp_path / "log")
    with pytest.raises(Conflict, match=r"went back.*3 decisions.*serving\.recover"):
        writer.check()
    with pytest.raises(Conflict, match="went back"):
        writer.write()
    assert "went back" in writer.trouble
    recover(emptied.store, emptied.campaign, read_log(tmp_path / "log"))
    LogWriter(emptied.store, tmp_path / "log").check()


def test_a_ledger_whose_log_is_longer_ends_at_the_start(start, kit, tmp_path):
    campaign = kit.campaign()
    ledger = filled(campaign, tmp_path / "before.db", kit, 3)
    LogWriter(ledger.store, tmp_path / "log").write()
    ledger.close()
    service = start(campaign, "--log-dir", str(tmp_path / "log"))
    assert service.process.wait(60) == 2
    assert "serving.recover" in service.tail()
