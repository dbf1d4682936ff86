"""The endpoints without a network: who may speak to them, and that a promise can be given back."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys

import httpx
import pytest

from serving.ledger.app import create_app
from serving.ledger.guard import ledger_token, read_secret
from shadowprice.errors import InvalidInput

TOKEN = "an-example-of-a-token"


@pytest.fixture
def client(books):
    def make(token=None, **headers):
        app = create_app(books.store, books.campaign, hard_stop=True, token=token)
        return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://ledger", headers=headers)

    return make


def run(coroutine):

    return asyncio.run(coroutine)


async def ask(client, method, path, **options):
    async with client as open_client:
        return await open_client.request(method, path, **options)


@pytest.mark.parametrize("shown", [None, "Bearer another-token-here", TOKEN, "Bearer "])
@pytest.mark.parametrize("path", ["POST authorizations", "POST outcomes", "POST releases", "GET totals", "GET traffic"])
def test_without_the_token_nothing_is_told_and_nothing_done(client, path, shown, caplog):
    method, name = path.split()
    headers = {} if shown is None else {"authorization": shown}
    with caplog.at_level(logging.DEBUG):
        answer = run(ask(client(TOKEN, **headers), method, f"/v1/{name}", json={}))
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert TOKEN not in answer.text + caplog.text + str(answer.headers)


def test_with_the_token_all_is_as_without_one_and_the_probes_need_none(client):
    assert run(ask(client(TOKEN, authorization=f"bearer {TOKEN}"), "GET", "/v1/totals")).status_code == 200
    for path in ("/healthz", "/readyz", "/metrics"):
        assert run(ask(client(TOKEN), "GET", path)).status_code == 200


def test_a_secret_comes_from_a_file_and_is_never_repeated(tmp_path):
    file = tmp_path / "token"
    assert read_secret(None) is None
    assert ledger_token({}) is None
    file.write_text(TOKEN + "\n")
    assert read_secret(file) == ledger_token({"SHADOWPRICE_LEDGER_TOKEN_FILE": str(file)}) == TOKEN
    for wrong in ("", "short", "with a tab\tand a secret"):
        file.write_text(wrong)
        with pytest.raises(InvalidInput, match="16 printable") as refusal:
            read_secret(file)
        assert not wrong or wrong not in str(refusal.value)
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_secret(tmp_path / "nowhere")


def test_promises_are_given_back_over_http(client, books, kit):
    books.authorise(kit.item("a"), kit.item("b"))
    body = {"campaign": books.campaign.name, "request_ids": ["a", "a"]}
    assert run(ask(client(), "POST", "/v1/releases", json=body)).json() == {"accepted": 1, "repeated": 0}
    assert run(ask(client(), "POST", "/v1/releases", json=body)).json() == {"accepted": 0, "repeated": 1}
    assert books.money() == (50, 0)
    unknown = run(ask(client(), "POST", "/v1/releases", json=body | {"request_ids": ["b", "nobody"]}))
    assert (unknown.status_code, "request_ids[1]" in unknown.json()["error"]) == (404, True)
    other = run(ask(client(), "POST", "/v1/releases", json=body | {"campaign": "autumn"}))
    assert other.status_code == 404
    empty = run(ask(client(), "POST", "/v1/releases", json=body | {"request_ids": []}))
    assert (empty.status_code, empty.json()["field"]) == (422, "request_ids")
    assert books.money() == (50, 0)
    page = run(ask(client(), "GET", "/metrics")).text
    name = books.campaign.name
    assert f'shadowprice_released_minor_units_total{{campaign="{name}",reason="returned",side="customer"}} 50.0' in page
    assert f'shadowprice_late_minor_units_total{{campaign="{name}",side="customer"}} 0.0' in page


def test_the_ledger_needs_nothing_of_training():
    """Its image has neither torch nor the checker of tables."""
    absent = dict.fromkeys(("torch", "pandera", "pandera.pandas", "feast", "kserve"))
    wanted = "serving.ledger.__main__, serving.ledger.log, serving.ledger.redis.store, serving.ledger.sqlite.store"
    program = f"import sys; sys.modules.update({absent}); import {wanted}"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
