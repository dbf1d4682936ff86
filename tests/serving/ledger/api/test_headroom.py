"""The space that is left, in the metrics of both stores."""

import asyncio
import shutil

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from serving.ledger.api.app import Ledgers, serve
from serving.ledger.api.ledger import Ledger


@pytest.fixture
def scrape(ledger, tmp_path):
    def made(**volumes):
        app = serve(Ledgers([Ledger(ledger.store, ledger.campaign, volumes=volumes)]))

        async def ask():
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
                return (await client.get("/metrics")).text

        page = asyncio.run(ask())
        return {
            (sample.name.removeprefix("shadowprice_"), sample.labels.get("volume", "")): sample.value
            for family in text_string_to_metric_families(page)
            for sample in family.samples
        }

    return made


def test_free_and_whole_size_of_each_volume_are_exported_also_before_its_folder_exists(scrape, tmp_path):
    found = scrape(store=tmp_path, log=tmp_path / "not" / "there")
    disk = shutil.disk_usage(tmp_path)
    for volume in ("store", "log"):
        assert found["disk_size_bytes", volume] == disk.total
        assert found["disk_free_bytes", volume] == pytest.approx(disk.free, rel=0.1)
    assert not [key for key in scrape() if key[0] == "disk_free_bytes"]


def test_the_size_of_the_store_grows_with_its_rows(ledger, kit, scrape):
    before = scrape()
    assert (before["store_decisions", ""], before["store_outcomes", ""]) == (0, 0)
    for start in range(0, 2000, 500):
        ledger.authorize(*(kit.item(f"r{number}", level=0) for number in range(start, start + 500)))
    ledger.settle(*(kit.event(f"r{number}") for number in range(50)))
    after = scrape()
    assert (after["store_decisions", ""], after["store_outcomes", ""]) == (2000, 50)
    assert after["store_bytes", ""] > before["store_bytes", ""] + 200_000
    assert after["store_limit_bytes", ""] == 0


def test_redis_names_the_limit_of_its_memory_and_may_refuse_to_name_its_size(open_ledger, durable_redis, request):
    ledger = open_ledger()
    if "sqlite" in request.node.name:
        assert ledger.store.storage().limit_bytes == 0
        return
    client = ledger.store._client
    client.config_set("maxmemory", 10**9)
    try:
        assert ledger.store.storage().limit_bytes == 10**9
    finally:
        client.config_set("maxmemory", 0)
    client.acl_setuser("quiet", enabled=True, nopass=True, commands=["+@all", "-info"], keys=["*"])
    try:
        client.execute_command("AUTH", "quiet", "")
        storage = ledger.store.storage()
    finally:
        client.execute_command("AUTH", "default", "")
        client.acl_deluser("quiet")
    assert (storage.used_bytes, storage.limit_bytes, storage.decisions) == (None, 0, 0)
