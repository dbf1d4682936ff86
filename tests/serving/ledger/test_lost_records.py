"""A Redis that lost records, or may lose them, grants no money again."""

import asyncio
import json
import signal
import time
from contextlib import closing

import pytest
import redis

from benchmarks.faults.redis_server import RedisServer
from serving.ledger.api.ledger import Ledger
from serving.ledger.api.messages import Releases
from serving.ledger.durability import ONE_IF_ANY, Durability
from serving.ledger.log import LogWriter
from serving.ledger.redis.writers import FIELD, KEPT
from serving.recover import main
from shadowprice.errors import Conflict, InvalidInput, Unavailable

BUDGET = 100


@pytest.fixture
def server(tmp_path, tool):
    tool("redis-server")
    server = RedisServer(tmp_path / "redis")
    server.start()
    yield server
    server.kill()


@pytest.fixture
def admin(server):
    with redis.Redis.from_url(server.url) as client:
        yield client


@pytest.fixture
def opened(kit, tmp_path):
    made = []

    def opening(server, campaign, url=None, **durability):
        made.append(kit.open(campaign, tmp_path, url or server.url, Durability(**durability)))
        return made[-1]

    yield opening
    for ledger in made:
        ledger.close()


def spend_all(ledger, kit, prefix="r"):
    """Ask until the whole budget is authorized; returns what was granted."""
    return sum(ledger.authorize(kit.item(f"{prefix}{number}"))[0].decision.incentive for number in range(4))


def assert_refuses(ledger, kit, match):
    for _ in range(2):
        with pytest.raises(Unavailable, match=match):
            ledger.authorize(kit.item("again", account_id="b"))
    assert not ledger.store.alive or ledger.store.trouble
    assert match in ledger.store.trouble


def test_an_emptied_redis_grants_nothing_to_a_ledger_that_runs(server, admin, opened, kit):
    ledger = opened(server, kit.campaign(limit=BUDGET))
    assert spend_all(ledger, kit) == BUDGET
    admin.flushall()
    assert_refuses(ledger, kit, "went back")
    assert not ledger.store.alive
    with pytest.raises(Unavailable, match="went back"):
        ledger.sweep()
    with pytest.raises(Unavailable, match="recover"):
        ledger.store.totals()
    assert admin.keys("*") == []


def test_reading_the_totals_is_enough_to_notice(server, admin, opened, kit):
    ledger = opened(server, kit.campaign(limit=BUDGET))
    spend_all(ledger, kit)
    admin.flushall()
    with pytest.raises(Unavailable, match=r"holds 0 decisions, 0 outcomes .* where 4 decisions"):
        ledger.store.totals()
    assert not ledger.store.alive


def test_a_replica_promoted_while_it_lagged_grants_nothing(server, tmp_path, opened, kit):
    behind = RedisServer(tmp_path / "behind", "--replicaof", f"127.0.0.1 {server.port}")
    behind.start()
    try:
        with redis.Redis.from_url(behind.url) as replica, redis.Redis.from_url(server.url) as master:
            campaign = kit.campaign(limit=BUDGET)
            ledger = opened(server, campaign)
            ledger.authorize(kit.item("first"))
            wait_until(lambda: master.wait(1, 1000) == 1)
            replica.replicaof("NO", "ONE")
            spend_all(ledger, kit)
            # A service address leads to the promoted replica from now on.
            pool = ledger.store._client.connection_pool
            pool.connection_kwargs["port"] = behind.port
            pool.disconnect()
            pool.reset()
            assert_refuses(ledger, kit, "went back")
    finally:
        behind.kill()


def test_a_ledger_notices_its_lost_records_where_another_ledger_wrote_as_many(server, admin, opened, kit):
    campaign = kit.campaign(limit=500)
    first, second = (opened(server, campaign) for _ in range(2))
    before = {key: admin.dump(key) for key in admin.keys("*")}

    def grant(ledger, name, level=2):
        return ledger.authorize(kit.item(name, level=level))[0].decision.incentive

    assert [grant(first, f"lost{number}") for number in range(3)] == [130] * 3
    # A replica that lacks these is promoted, and another ledger is asked first.
    admin.flushall()
    for key, value in before.items():
        admin.restore(key, 0, value)
    assert [grant(second, f"r{number}") for number in range(3)] == [130] * 3
    assert_refuses(first, kit, "went back")
    assert "0 of the 3 records of this process" in first.store.trouble
    with pytest.raises(Unavailable, match="went back"):
        first.store.totals()
    assert grant(second, "more", level=1) == 50


def test_every_read_of_sums_and_decisions_notices_lost_records(server, admin, opened, kit):
    for read in (lambda store: store.totals(), lambda store: store.find(["r0"])):
        ledger = opened(server, kit.campaign(limit=BUDGET))
        spend_all(ledger, kit)
        (sums,) = admin.keys(f"*{ledger.campaign.name}*sums")
        (writer,) = [name for name in admin.hkeys(sums) if name.startswith(b"writer|")]
        admin.hset(sums, writer, admin.hget(sums, writer).replace(b"4", b"3", 1))
        with pytest.raises(Unavailable, match="3 of the 4 records of this process"):
            read(ledger.store)
        assert not ledger.store.alive


def test_reporters_and_returns_get_503_and_not_404_after_records_were_lost(server, admin, opened, kit):
    ledger = opened(server, kit.campaign(limit=BUDGET))
    spend_all(ledger, kit)
    service = Ledger(ledger.store, ledger.campaign)
    admin.flushall()
    for call in (
        lambda: service.settle([kit.event("r0", 50)], "shop"),
        lambda: service.correct([kit.correction("r0", 50)], "shop"),
        lambda: service.release(Releases(campaign=ledger.campaign.name, request_ids=["r0"])),
    ):
        ledger.store._condition.went_back = None
        with pytest.raises(Unavailable, match="went back"):
            asyncio.run(call())


def test_fields_of_processes_that_ended_do_not_accumulate(server, admin, opened, kit):
    campaign = kit.campaign(limit=BUDGET)
    ledger = opened(server, campaign)
    spend_all(ledger, kit)
    (sums,) = admin.keys("*sums")

    def writers():
        return {name for name in admin.hkeys(sums) if name.startswith(b"writer|")}

    (own,) = writers()
    killed = f"{FIELD}killed".encode()
    for age, kept in ((KEPT // 2, {own, killed}), (2 * KEPT, {own})):
        admin.hset(sums, killed, f"7\n{int(admin.hget(sums, 'ledger_time')) - age}")
        opened(server, campaign).close()
        assert writers() == kept
    ledger.close()
    assert writers() == set()


@pytest.mark.parametrize("noted", [True, False], ids=["witness", "no witness"])
def test_a_ledger_that_is_started_on_an_emptied_redis_has_only_the_witness(server, admin, opened, kit, tmp_path, noted):
    campaign = kit.campaign(limit=BUDGET)
    witness = tmp_path / "claim" / "ledger.witness"
    ledger = opened(server, campaign, witness=witness)
    spend_all(ledger, kit)
    ledger.store.check()
    assert json.loads(witness.read_text())["decisions"] == 4
    admin.flushall()
    ledger.close()
    if not noted:
        witness.unlink()
        assert spend_all(opened(server, campaign, witness=witness), kit) == BUDGET
        return
    for _ in range(2):
        with pytest.raises(Conflict, match=r"went back.*witness .* has noted 4.*delete the witness"):
            opened(server, campaign, witness=witness)


def test_a_redis_of_the_same_epoch_with_fewer_records_is_refused_by_the_witness(server, admin, opened, kit, tmp_path):
    campaign = kit.campaign(limit=BUDGET)
    witness = tmp_path / "ledger.witness"
    ledger = opened(server, campaign, witness=witness)
    spend_all(ledger, kit)
    ledger.close()
    opened(server, campaign, witness=witness).close()
    (decided,) = admin.keys("*decided")
    admin.rpop(decided)
    with pytest.raises(Conflict, match=r"holds 3 decisions, .* noted 4 decisions,"):
        opened(server, campaign, witness=witness)


def test_a_redis_that_lost_records_serves_again_once_it_is_recovered(server, admin, opened, kit, tmp_path, capsys):
    campaign = kit.campaign(limit=BUDGET)
    witness, file = tmp_path / "ledger.witness", tmp_path / "campaign.json"
    file.write_text(json.dumps(campaign.to_dict()))
    ledger = opened(server, campaign, witness=witness)
    spend_all(ledger, kit)
    LogWriter(ledger.store, tmp_path / "log").write()
    ledger.close()
    admin.flushall()
    with pytest.raises(Conflict, match="went back"):
        opened(server, campaign, witness=witness)
    places = ["--campaign-file", str(file), "--redis", server.url, "--log-dir", str(tmp_path / "log")]
    assert main([*places, "--witness", str(witness)]) == 0
    assert "4 decisions" in capsys.readouterr().out
    ledger = opened(server, campaign, witness=witness)
    assert ledger.money() == (BUDGET, 0)
    assert spend_all(ledger, kit, "new") == 0


def test_a_witness_of_another_campaign_or_a_damaged_one_is_refused(server, opened, kit, tmp_path):
    witness = tmp_path / "ledger.witness"
    opened(server, kit.campaign(), witness=witness).close()
    with pytest.raises(Conflict, match="is of campaign"):
        opened(server, kit.campaign(), witness=witness)
    witness.write_text("{}")
    with pytest.raises(Conflict, match="is damaged"):
        opened(server, kit.campaign(), witness=witness)


@pytest.mark.parametrize(
    ("setting", "value", "right"),
    [
        ("appendfsync", "everysec", "always"),
        ("maxmemory-policy", "allkeys-lru", "noeviction"),
        ("appendonly", "no", "yes"),
    ],
)
def test_settings_that_change_at_run_time_stop_the_ledger_until_they_are_put_back(
    server, admin, opened, kit, setting, value, right
):
    ledger = opened(server, kit.campaign(limit=BUDGET))
    admin.config_set(setting, value)
    with pytest.raises(Unavailable, match=f"{setting} is '{value}'"):
        ledger.store.check()
    assert_refuses(ledger, kit, f"{setting} is '{value}'")
    # A connection that is made anew is checked before it is used.
    other = opened(server, kit.campaign(), declared=True)
    pool = other.store._client.connection_pool
    pool.connection_kwargs["redis_connect_func"] = ledger.store._check.connected
    pool.disconnect()
    pool.reset()
    assert_refuses(other, kit, f"{setting} is '{value}'")
    admin.config_set(setting, right)
    ledger.store.check()
    assert spend_all(ledger, kit) == BUDGET
    assert ledger.store.trouble is None


def test_a_user_who_may_not_read_the_settings_is_refused_unless_the_operator_vouches(server, admin, opened, kit):
    admin.execute_command("ACL", "SETUSER", "ledger", "on", ">secret", "~*", "+@all", "-config")
    url = server.url.replace("redis://", "redis://ledger:secret@")
    campaign = kit.campaign(limit=BUDGET)
    with pytest.raises(InvalidInput, match=r"\+config\|get.*--redis-durability declared"):
        opened(server, campaign, url)
    assert spend_all(opened(server, campaign, url, declared=True), kit) == BUDGET
    admin.execute_command("ACL", "SETUSER", "ledger", "+config|get")
    opened(server, campaign, url)
    admin.execute_command("ACL", "SETUSER", "ledger", "-role")
    opened(server, campaign, url)
    admin.execute_command("ACL", "SETUSER", "ledger", "-info")
    with pytest.raises(InvalidInput, match="role cannot be checked"):
        opened(server, campaign, url, declared=True)


def test_a_replica_is_no_store_of_a_ledger_at_the_start_and_later(server, admin, opened, kit, tmp_path):
    ledger = opened(server, kit.campaign(limit=BUDGET))
    admin.replicaof("127.0.0.1", "1")
    with pytest.raises(Unavailable, match="role is 'slave'"):
        ledger.store.check()
    assert_refuses(ledger, kit, "role is 'slave'")
    with pytest.raises(InvalidInput, match="role is 'slave'"):
        opened(server, kit.campaign(), declared=True)
    admin.replicaof("NO", "ONE")


def test_by_default_one_replica_acknowledges_while_there_is_one(server, tmp_path, opened, kit):
    ledger = opened(server, kit.campaign(limit=BUDGET), replicas=ONE_IF_ANY)
    ledger.authorize(kit.item("alone"))
    replica = RedisServer(tmp_path / "replica", "--replicaof", f"127.0.0.1 {server.port}")
    replica.start()
    try:
        with closing(redis.Redis.from_url(server.url)) as master:
            wait_until(lambda: master.wait(1, 1000) == 1)
        ledger.store.check()
        replica.process.send_signal(signal.SIGSTOP)
        with pytest.raises(Unavailable, match="by 0 of 1 replicas"):
            ledger.authorize(kit.item("unacknowledged"))
        replica.process.send_signal(signal.SIGCONT)
        assert ledger.authorize(kit.item("unacknowledged"))[0].repeat
    finally:
        replica.kill()
    with closing(redis.Redis.from_url(server.url)) as master:
        wait_until(lambda: not master.info("replication")["connected_slaves"])
    ledger.store.check()
    assert not ledger.authorize(kit.item("alone again"))[0].repeat


def test_too_few_replicas_are_an_error_and_the_call_may_be_sent_again(server, tmp_path, opened, kit):
    ledger = opened(server, kit.campaign(limit=BUDGET), replicas=1)
    with pytest.raises(Unavailable, match="by 0 of 1 replicas"):
        ledger.authorize(kit.item("r0"))
    assert "replicas" in ledger.store.trouble
    replica = RedisServer(tmp_path / "replica", "--replicaof", f"127.0.0.1 {server.port}")
    replica.start()
    try:
        with closing(redis.Redis.from_url(server.url)) as master:
            wait_until(lambda: master.wait(1, 1000) == 1)
        (again,) = ledger.authorize(kit.item("r0"))
        assert again.repeat
        assert spend_all(ledger, kit) == BUDGET
        assert ledger.store.trouble is None
        # A replica that is connected and does not keep up counts for a call no more when that is sent again.
        replica.process.send_signal(signal.SIGSTOP)
        for _ in range(2):
            with pytest.raises(Unavailable, match="by 0 of 1 replicas"):
                ledger.authorize(kit.item("late", level=0))
            ledger.store._client.connection_pool.disconnect()
        replica.process.send_signal(signal.SIGCONT)
        assert ledger.authorize(kit.item("late", level=0))[0].repeat
    finally:
        replica.kill()


def wait_until(true, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)
