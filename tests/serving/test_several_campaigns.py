"""One predictor and one ledger for several campaigns, which share a cap of each account."""

import httpx

from serving.client.client import LedgerClient
from serving.local.launch import Service, free_port
from shadowprice.limits import Cap, Limits
from shadowprice.pacing.price_store import PriceStore

NAMES = ("autumn", "spring", "winter")
OTHER = "summer"
"""Workspace in the same folder that the services are not told of."""


def test_campaigns_of_one_folder_have_models_prices_and_metrics_of_their_own(kit, tmp_path, samples, eventually):
    folder = tmp_path / "campaigns"
    limits = Limits(caps=(Cap(name="wallet", per="account", count=1, campaigns=NAMES),))
    for name in (*NAMES, OTHER):
        own = folder / name
        own.mkdir(parents=True)
        shared = {} if name == OTHER else {"limits": limits}
        kit.write_campaign(kit.campaign(name=name, **shared), own / "campaign.json")
        kit.write_model(kit.heads(), own / "model")
        if name == NAMES[0]:
            kit.write_features(kit.embeddings(), own / "features")
        else:
            (own / "features").symlink_to(folder / NAMES[0] / "features")
    for name, price in zip(NAMES[:2], (1e-9, 2e-9), strict=True):
        PriceStore(folder / name / "prices").publish(kit.price(campaign=name, price=price))
    # A campaign that is named before its folder is there does not keep the others from being served.
    told = ["--campaigns", str(folder), "--campaign-names", ",".join((*NAMES, "untrained"))]
    ports = free_port(), free_port()
    ledger = Service(
        "ledger",
        ["serving.ledger", *told, "--db", str(tmp_path / "db"), "--port", str(ports[0])],
        ports[0],
        "/readyz",
        tmp_path / "ledger.log",
    )
    command = ["serving.predictor", *told, "--ledger-url", ledger.url, "--window", "off"]
    predictor = Service(
        "predictor", [*command, "--http-port", str(ports[1])], ports[1], "/v2/health/ready", tmp_path / "predictor.log"
    )
    try:
        ledger.wait_ready(120.0)
        # That of winter waits for a price, and keeps nobody from the others.
        predictor.wait_ready(240.0)
        assert httpx.get(f"{predictor.url}/v2/models/winter/ready").status_code != 200

        def ask(campaign, request_id):
            body = {"instances": [{"request_id": request_id, "account_id": "c1", "side": "customer"}]}
            answer = httpx.post(f"{predictor.url}/v1/models/{campaign}:predict", json=body, timeout=10)
            return answer.status_code, answer.json()

        # The service is ready with its first campaign.
        for name in NAMES[:2]:
            eventually(lambda name=name: httpx.get(f"{predictor.url}/v2/models/{name}/ready").status_code == 200)
        status, first = ask("autumn", "r1")
        assert status == 200, first
        assert first["predictions"][0]["incentive"] > 0
        status, second = ask("spring", "r1")
        assert status == 200, second
        (answer,) = second["predictions"]
        assert (answer["incentive"], answer["reason"]) == (0, "capped")
        assert answer["limited_by"] == "wallet"
        assert ask("winter", "r1")[0] == 503
        assert ask(OTHER, "r1")[0] == ask("untrained", "r1")[0] == 404
        assert httpx.get(f"{ledger.url}/v1/totals?campaign={OTHER}").status_code == 404
        with LedgerClient(ledger.url, "autumn") as client:
            asked = {name: client.of(name).totals()["requests"]["customer"] for name in NAMES}
            assert (asked["autumn"], asked["winter"]) == (1, 0)
            assert client.totals()["requests"]["customer"] == 1
        found = samples(predictor.url)
        prices = {
            dict(labels)["campaign"]: value for (name, labels), value in found.items() if name == "shadowprice_price"
        }
        assert (prices["autumn"], prices["spring"]) == (1e-9, 2e-9)
        decided = {
            dict(labels)["campaign"]
            for (name, labels), value in samples(ledger.url).items()
            if name == "shadowprice_decisions_total" and value
        }
        assert decided == {"autumn", "spring"}
    finally:
        predictor.stop()
        ledger.stop()
