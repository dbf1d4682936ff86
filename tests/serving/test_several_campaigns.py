"""One predictor and one ledger for several campaigns, which share a cap of each account."""

from __future__ import annotations

import httpx

from serving.local.launch import Service, free_port
from shadowprice.limits import Cap, Limits
from shadowprice.pacing.price_store import PriceStore

NAMES = ("autumn", "spring", "winter")


def test_campaigns_of_one_folder_have_models_prices_and_metrics_of_their_own(kit, tmp_path, samples, eventually):
    folder = tmp_path / "campaigns"
    limits = Limits(caps=(Cap(name="wallet", per="account", count=1, campaigns=NAMES),))
    for name in NAMES:
        own = folder / name
        own.mkdir(parents=True)
        kit.write_campaign(kit.campaign(name=name, limits=limits), own / "campaign.json")
        kit.write_model(kit.heads(), own / "model")
        if name == NAMES[0]:
            kit.write_features(kit.embeddings(), own / "features")
        else:
            (own / "features").symlink_to(folder / NAMES[0] / "features")
    for name, price in zip(NAMES[:2], (1e-9, 2e-9), strict=True):
        PriceStore(folder / name / "prices").publish(kit.price(campaign=name, price=price))
    ports = free_port(), free_port()
    ledger = Service(
        "ledger",
        ["serving.ledger", "--campaigns", str(folder), "--db", str(tmp_path / "db"), "--port", str(ports[0])],
        ports[0],
        "/readyz",
        tmp_path / "ledger.log",
    )
    command = ["serving.predictor", "--campaigns", str(folder), "--ledger-url", ledger.url, "--window", "off"]
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
