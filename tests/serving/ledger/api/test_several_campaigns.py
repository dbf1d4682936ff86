"""Several campaigns in one ledger service: each is asked by its name, and measured under its label."""

import asyncio
from unittest.mock import ANY

import httpx
from prometheus_client.parser import text_string_to_metric_families

from serving.ledger.api.app import Ledger, Ledgers, serve
from shadowprice.limits import Cap, Limits


def test_each_campaign_is_asked_by_its_name(kit, tmp_path):
    names = ("autumn", "winter")
    limits = Limits(caps=(Cap(name="wallet", per="account", count=1, campaigns=names),))
    peers = kit.peers({name: tmp_path / f"{name}.db" for name in names})
    opened = [kit.open(kit.campaign(name=name, limits=limits), peers.files[name], peers=peers) for name in names]
    app = serve(Ledgers([Ledger(each.store, each.campaign) for each in opened]))

    def decide(campaign, request_id):
        columns = {name: [value] for name, value in vars(kit.item(request_id)).items()}
        return {"campaign": campaign, "model_version": "m", "price_version": 1, "items": columns}

    outcome = {
        "specversion": "1.0", "id": "e1", "source": "shop", "type": "shadowprice.outcome.v1",
        "data": {"request_id": "r1", "redeemed": True, "cost": 50, "observed_at": "2024-05-01T12:00:00Z"},
    }  # fmt: skip

    async def check():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            first = (await client.post("/v1/authorizations", json=decide("autumn", "r1"))).json()["decisions"]
            second = (await client.post("/v1/authorizations", json=decide("winter", "r1"))).json()["decisions"]
            assert (first["reason"], first["level"]) == (["tie"], [1])
            assert (second["reason"], second["level"], second["limited_by"]) == (["capped"], [0], ["wallet"])
            refused = await client.post("/v1/outcomes", json=outcome)
            assert (refused.status_code, refused.json()["field"]) == (400, "campaign")
            assert (await client.post("/v1/outcomes?campaign=autumn", json=outcome)).json()["accepted"] == 1
            assert (await client.get("/v1/totals?campaign=autumn")).json()["spent"] == 50
            assert (await client.get("/v1/totals?campaign=winter")).json()["spent"] == 0
            assert (await client.get("/v1/totals?campaign=spring")).status_code == 404
            assert (await client.get("/readyz?campaign=winter")).json()["campaign"] == "winter"
            ready = (await client.get("/readyz")).json()
            assert [each["campaign"] for each in ready["campaigns"]] == list(names)
            use = "/v1/usage?campaign=winter&name=wallet&limit=1"
            assert (await client.get(use)).json()["owners"] == []
            assert (await client.get(f"{use}&of=autumn")).json() == {
                "campaign": "winter",
                "name": "wallet",
                "of": "autumn",
                "period": "",
                "first": ANY,
                "owners": ["a"],
                "amounts": [50],
                "uses": [1],
                "next": ANY,
            }
            for wrong, field in (
                ("name=purse", "name"),
                ("name=wallet&of=spring", "of"),
                ("name=wallet&limit=0", "limit"),
            ):
                refused = await client.get(f"/v1/usage?campaign=winter&{wrong}")
                assert (refused.status_code, refused.json()["field"]) == (400, field)
            families = list(text_string_to_metric_families((await client.get("/metrics")).text))
            assert len({family.name for family in families}) == len(families)
            spent = next(each for each in families if each.name == "shadowprice_spend_minor_units")
            assert {each.labels["campaign"]: each.value for each in spent.samples if each.value} == {"autumn": 50}

    asyncio.run(check())
    for each in opened:
        each.close()
