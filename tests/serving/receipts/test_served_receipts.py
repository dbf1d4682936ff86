"""Receipts of decisions of both services over HTTP: the price that is published next seals them."""

import time

import numpy as np
import pytest

from cli.explain.receipt import main
from operations.publish import add
from serving.client.client import DecisionClient
from shadowprice.pacing.decision_log import verify_receipt

COUNT = 12


def receipt_of(name, run, out):
    assert main([name, "--workspace", str(run), "--out", str(out)]) == 0
    return verify_receipt.verify(out.read_bytes())


def test_what_a_caller_was_answered_is_proved_after_the_next_price(world, kit, tmp_path, capsys):
    run = world.deployment.campaign_file.parent
    price = world.publish(prices={"budget": 0.004, "customers": 0.001, "apps": 0.002}, tie_share=0.5)
    names = [f"proved-{number}" for number in range(COUNT)]
    with DecisionClient(world.predictor.url, "spring") as client:
        answers = client.decide(
            names,
            [f"c{number}" for number in range(COUNT - 2)] + ["m3", "stranger"],
            ["customer"] * (COUNT - 2) + ["merchant", "customer"],
            ["m1", "m2"] * (COUNT // 2),
            {"c_channel": [*[None, "app", "web", "app", "web"] * 2, None, "app"]},
        )
    assert main([names[0], "--workspace", str(run)]) == 1
    # The next process writes what the killed one had not logged.
    world.kill_ledger()
    for _ in range(300):
        # Only the last request: the log keeps their order.
        assert main([names[-1], "--workspace", str(run)]) == 1
        if "is in no published head yet" in (told := capsys.readouterr().err):
            break
        time.sleep(0.1)
    assert "is in no published head yet" in told
    sealed = add(kit.price(price.version + 1), run, world.prices)
    assert sealed.log_rows >= COUNT
    kinds = set()
    for name, level in zip(names, answers.level.tolist(), strict=True):
        receipt = receipt_of(name, run, tmp_path / "receipt.json")
        entry = receipt["entry"]
        assert (entry["request_id"], entry["level"], entry["price_version"]) == (name, level, price.version)
        assert receipt["head"]["sha256"] == sealed.sha256
        assert receipt["price"]["prices"] == price.prices
        kinds |= {each["forbidden_by"] for each in receipt["levels"]}
    # The curve is that of the served model.
    embedding = world.embeddings.set_index(["side", "account_id"])["embedding"]["merchant", "m3"]
    curve = world.heads["merchant"].response(np.asarray(embedding)[None])[:, 0]
    merchant = receipt_of(names[-2], run, tmp_path / "receipt.json")
    assert [each["response"] for each in merchant["levels"]] == pytest.approx(curve.tolist(), rel=1e-6)
    assert kinds == {"", "rule kiosks"}
    assert main(["--workspace", str(run)]) == 0
    assert "the log agrees with 1 published heads" in capsys.readouterr().out
    assert main(["--verifier"]) == 0
    assert "import json" in capsys.readouterr().out
