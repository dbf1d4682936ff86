import socket
import subprocess
import sys

import httpx
import pytest

from serving.local.launch import Deployment, free_port, launch, start_ledger, start_predictor
from serving.predictor.config import Config
from shadowprice.errors import Unavailable
from shadowprice.pacing.price_store import PriceStore


@pytest.fixture
def deployment(kit, tmp_path):
    deployment = Deployment.of_run(tmp_path, kit.write_campaign(kit.campaign(), tmp_path / "campaign.json"))
    kit.write_model(kit.heads(), deployment.model_dir)
    return deployment


def test_a_service_that_cannot_start_is_reported_with_the_end_of_its_log(deployment):
    (deployment.model_dir / "heads.safetensors").write_bytes(b"not a model")
    deployment.logs_dir.mkdir()
    (deployment.logs_dir / "predictor.log").write_text("of an earlier start\n" * 99)
    predictor = start_predictor(deployment, free_port(), "http://127.0.0.1:1")
    try:
        with pytest.raises(Unavailable, match=r"ended with status 2(.|\n)*heads\.safetensors") as told:
            predictor.wait_ready(60.0)
        assert "earlier" not in str(told.value)
    finally:
        predictor.stop()


def test_services_that_are_not_ready_in_time_are_stopped(deployment):
    port = free_port()
    with (
        pytest.raises(Unavailable, match=r"the (ledger|predictor) is not ready after \d s; its log .*\.log says"),
        launch(deployment, ledger_port=port, timeout=5.0),
    ):
        pytest.fail("there is no feature store")
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://127.0.0.1:{port}/healthz")


def test_a_port_that_is_taken_is_reported(deployment):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ledger = start_ledger(deployment, taken.getsockname()[1])
        try:
            with pytest.raises(Unavailable, match=r"the ledger ended with status \d(.|\n)*Address already in use"):
                ledger.wait_ready(30.0)
        finally:
            ledger.stop()


def test_the_services_are_ready_in_the_context_and_gone_after_it_even_when_it_fails(deployment, kit):
    kit.write_features(kit.embeddings(), deployment.features_dir)
    PriceStore(deployment.prices_dir).publish(kit.price(1))
    answers = []

    def fail_inside() -> None:
        with launch(deployment, console_port=free_port()) as services:
            answers.extend(httpx.get(url).status_code for url in (*services.metrics_urls, services.console_url))
            answers.append(httpx.get(f"{services.predictor_url}/v2/models/{services.campaign}/ready").status_code)
            urls.extend([*services.metrics_urls, services.console_url])
            raise ZeroDivisionError

    urls: list[str] = []
    with pytest.raises(ZeroDivisionError):
        fail_inside()
    assert answers == [200, 200, 200, 200]
    for url in urls:
        with pytest.raises(httpx.ConnectError):
            httpx.get(url)


def test_flags_win_over_the_environment_and_a_missing_one_is_named(tmp_path, capsys):
    environment = {
        "SHADOWPRICE_CAMPAIGN_FILE": "c.json",
        "SHADOWPRICE_MODEL_DIR": "model",
        "SHADOWPRICE_FEATURES_DIR": "features",
        "SHADOWPRICE_PRICES_DIR": "prices",
        "SHADOWPRICE_LEDGER_URL": "http://ledger:8081",
        "SHADOWPRICE_HTTP_PORT": "9000",
        "SHADOWPRICE_MAX_INSTANCES": "5",
    }
    config = Config.parse(["--http-port", "9001"], environment)
    assert (config.http_port, config.max_instances, str(config.model_dir)) == (9001, 5, "model")
    # The window is only switched off on purpose.
    assert config.window == "on"
    assert Config.parse([], environment | {"SHADOWPRICE_WINDOW": "off"}).window == "off"
    with pytest.raises(SystemExit):
        Config.parse(["--window", "perhaps"], environment)
    with pytest.raises(SystemExit):
        Config.parse(["--max-instances", "1001"], environment)
    assert "--max-instances must be at most 1000" in capsys.readouterr().err
    del environment["SHADOWPRICE_PRICES_DIR"]
    with pytest.raises(SystemExit):
        Config.parse([], environment)
    assert "--prices-dir" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        Config.parse(["--prices-dir", "p"], environment | {"SHADOWPRICE_AUTHORIZE": "perhaps"})
    assert "SHADOWPRICE_AUTHORIZE" in capsys.readouterr().err


def test_the_services_load_no_torch_no_ray_and_no_pandera():
    code = (
        "import sys, serving.predictor.__main__, serving.ledger.__main__, serving.client.client, serving.local.launch\n"
        "import feature_repo.online\n"
        "loaded = {'torch', 'ray', 'pandera'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
