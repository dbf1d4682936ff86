"""The endpoints without a network: the roles that they need, and the release of authorizations."""

import asyncio
import json
import logging
from datetime import UTC, datetime
from functools import partial

import httpx
import pytest

from serving.http.tokens import ROLES, Tokens, ledger_tokens, read_secret
from serving.ledger.api.app import Ledgers, serve
from serving.ledger.api.guard import ROUTES
from serving.ledger.api.ledger import Ledger
from shadowprice.errors import InvalidInput

TOKEN = "an-example-of-a-token"
OF_ROLES = {role: f"an-example-to-{role}" for role in ROLES}


@pytest.fixture
def client(ledger, tmp_path):
    def make(token=None, **headers):
        file = tmp_path / "tokens"
        if token is not None:
            file.write_text(token)
        tokens = None if token is None else Tokens(file)
        app = serve(Ledgers([Ledger(ledger.store, ledger.campaign)]), tokens=tokens)
        return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost", headers=headers)

    return make


def run(coroutine):

    return asyncio.run(coroutine)


async def ask(client, method, path, **options):
    async with client as open_client:
        return await open_client.request(method, path, **options)


@pytest.mark.parametrize("shown", [None, "Bearer another-token-here", TOKEN, "Bearer "])
@pytest.mark.parametrize(
    "path", ["POST authorizations", "POST outcomes", "POST releases", "POST corrections", "GET totals", "GET traffic"]
)
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


@pytest.mark.parametrize("role", ROLES)
def test_a_route_is_open_to_its_role_alone(client, role):
    shown = {"authorization": f"Bearer {OF_ROLES[role]}"}
    for path, needed in ROUTES.items():
        method = "GET" if needed == "read" else "POST"
        answer = run(ask(client(json.dumps(OF_ROLES), **shown), method, path, json={}))
        assert (answer.status_code == 403) == (role != needed), (path, answer.text)
        assert role == needed or needed in answer.json()["error"]
    for path in ("/v1/unknown", "/v1/totals/", "/v1/"):
        status = run(ask(client(json.dumps(OF_ROLES), **shown), "GET", path)).status_code
        assert (status == 403) == (role != "administer")


def test_a_secret_comes_from_a_file_and_is_never_repeated(tmp_path):
    file = tmp_path / "token"
    assert read_secret(None) is None
    assert ledger_tokens({}) is None
    file.write_text(TOKEN + "\n")
    shown = ledger_tokens({"SHADOWPRICE_LEDGER_TOKEN_FILE": str(file)}).secret("read")
    assert read_secret(file) == shown == TOKEN
    for wrong in ("", "short", "with a tab\tand a secret"):
        file.write_text(wrong)
        with pytest.raises(InvalidInput, match="16 printable") as refusal:
            read_secret(file)
        assert not wrong or wrong not in str(refusal.value)
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_secret(tmp_path / "nowhere")


def test_authorizations_are_given_back_over_http(client, ledger, kit):
    ledger.authorize(kit.item("a"), kit.item("b"))
    body = {"campaign": ledger.campaign.name, "request_ids": ["a", "a"]}
    assert run(ask(client(), "POST", "/v1/releases", json=body)).json() == {"accepted": 1, "repeated": 0}
    assert run(ask(client(), "POST", "/v1/releases", json=body)).json() == {"accepted": 0, "repeated": 1}
    assert ledger.money() == (50, 0)
    unknown = run(ask(client(), "POST", "/v1/releases", json=body | {"request_ids": ["b", "nobody"]}))
    assert (unknown.status_code, "request_ids[1]" in unknown.json()["error"]) == (404, True)
    other = run(ask(client(), "POST", "/v1/releases", json=body | {"campaign": "autumn"}))
    assert other.status_code == 404
    empty = run(ask(client(), "POST", "/v1/releases", json=body | {"request_ids": []}))
    assert (empty.status_code, empty.json()["field"]) == (422, "request_ids")
    assert ledger.money() == (50, 0)
    page = run(ask(client(), "GET", "/metrics")).text
    name = ledger.campaign.name
    assert f'shadowprice_released_minor_units_total{{campaign="{name}",reason="returned",side="customer"}} 50.0' in page
    assert f'shadowprice_late_minor_units_total{{campaign="{name}",side="customer"}} 0.0' in page


def test_outcomes_are_corrected_over_http_and_the_totals_show_what_stands(client, ledger, kit):
    ledger.at = datetime.now(UTC)
    ledger.authorize(kit.item("a"), kit.item("b"), kit.item("c"))
    ledger.settle(kit.event("a", 50, at=ledger.at))
    data = {"request_id": "a", "kind": "refund", "redeemed": False, "cost": 0, "observed_at": ledger.at.isoformat()}
    attributes = {"specversion": "1.0", "type": "shadowprice.correction.v1", "source": "shop", "id": "c1"}
    structured = attributes | {"data": data}
    binary = {f"ce-{name}": value for name, value in attributes.items()}
    tokens = json.dumps({"report": {"refunds-desk": TOKEN}})
    desk = partial(client, tokens, authorization=f"Bearer {TOKEN}")
    assert run(ask(desk(), "POST", "/v1/corrections", json=structured)).json() == {"accepted": 1, "repeated": 0}
    (row,) = ledger.store.corrections_after(0, 10)
    assert (row.caller, row.source) == ("refunds-desk", "shop")
    outcome = structured | {"id": "o1", "data": {name: value for name, value in data.items() if name != "kind"}}
    outcome["data"] |= {"request_id": "c"}
    assert run(ask(desk(), "POST", "/v1/outcomes", json=outcome)).json() == {"accepted": 1, "repeated": 0}
    assert [row.caller for row in ledger.store.outcomes_after(0, 10)] == ["shop-a", "refunds-desk"]
    override = structured | {"id": "c3", "data": data | {"override": True}}
    refused = run(ask(desk(), "POST", "/v1/corrections", json=override))
    assert (refused.status_code, "'administer'" in refused.text) == (403, True)
    assert run(ask(client(), "POST", "/v1/corrections", json=[structured])).json() == {"accepted": 0, "repeated": 1}
    assert run(ask(client(**binary), "POST", "/v1/corrections", json=data)).json() == {"accepted": 0, "repeated": 1}
    for change, status, field in (
        ({"kind": "gift"}, 422, "data.kind"),
        ({"override": 1}, 422, "data.override"),
        ({"cost": 51, "redeemed": True}, 422, "data.cost"),
        ({"request_id": "b"}, 409, None),
        ({"request_id": "nobody"}, 404, None),
    ):
        body = structured | {"id": "c2", "data": data | change}
        answer = run(ask(client(), "POST", "/v1/corrections", json=body))
        assert (answer.status_code, answer.json().get("field")) == (status, field), answer.text
    totals = run(ask(client(), "GET", "/v1/totals")).json()
    assert (totals["spent"], totals["refunded_by_side"]["customer"], totals["net_spent"]) == (50, 50, 0)
    assert (totals["corrections_by_side"]["customer"], totals["withdrawn_by_side"]["customer"]) == (1, 1.0)
    assert (totals["money_left"], totals["outstanding"]) == (1000, 50)
    assert totals["hard_stop"] is True
    soft = Ledger(ledger.store, ledger.campaign, hard_stop=False)
    assert run(soft.totals())["hard_stop"] is False
    name = ledger.campaign.name
    page = run(ask(client(), "GET", "/metrics")).text
    assert f'shadowprice_corrections_total{{campaign="{name}",reason="refund",side="customer"}} 1.0' in page
    assert f'shadowprice_refunded_minor_units_total{{campaign="{name}",side="customer"}} 50.0' in page


def items(kit, *rows):
    return {name: [getattr(row, name) for row in rows] for name in vars(rows[0])}


def message(ledger, **parts):
    return {"campaign": ledger.campaign.name, "model_version": "m", "price_version": 7} | parts


def authorize(client, body):
    return run(ask(client(), "POST", "/v1/authorizations", json=body))


def test_calls_are_authorized_together_and_only_the_one_in_conflict_is_refused(client, ledger, kit):
    ledger.authorize(kit.item("r", level=2))
    known = {"request_id": ["never", "r", "r"], "account_id": ["a", "b", "a"], "side": ["customer"] * 3}
    body = message(
        ledger,
        items=items(kit, kit.item("a"), kit.item("b"), kit.item("lost"), kit.item("c")),
        sizes=[2, 1, 1],
        known=known | {"call": [0, 1, 2]},
    )

    async def both():
        async with client() as one:
            return (await one.post("/v1/authorizations", json=body)).json(), (await one.get("/metrics")).text

    answer, page = run(both())
    decisions = answer["decisions"]
    assert decisions["request_id"] == ["a", "b", "c", "r"]
    assert (answer["known"], decisions["repeat"]) == ([2], [False, False, False, True])
    assert [error is None for error in answer["errors"]] == [True, False, True]
    assert "'r' was decided before for another account" in answer["errors"][1]
    # A repeat has the versions and the reason that it was decided with.
    assert decisions["price_version"] == [7, 7, 7, 1]
    assert decisions["model_version"] == ["m"] * 4
    assert decisions["reason"][-1] == "tie"
    labels = f'campaign="{ledger.campaign.name}",level="2",reason="repeat",side="customer"'
    assert f"shadowprice_decisions_total{{{labels}}} 1.0" in page


def test_a_message_of_known_requests_alone_is_answered_and_records_nothing(client, ledger, kit):
    ledger.authorize(kit.item("r"))
    known = {"request_id": ["r"], "account_id": ["a"], "side": ["customer"], "call": [0]}
    answer = authorize(client, message(ledger, known=known)).json()
    assert (answer["decisions"]["request_id"], answer["known"], answer["errors"]) == (["r"], [0], [None])
    known = known | {"request_id": ["never"]}
    answer = authorize(client, message(ledger, known=known)).json()
    assert (answer["decisions"]["request_id"], answer["known"], answer["errors"]) == ([], [], [None])
    assert sum(ledger.store.totals().requests.values()) == 1


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({}, "items or known"),
        ({"sizes": [2]}, "sum to the 1 items"),
        ({"sizes": [1, 0], "known": 2}, "below the 2 calls"),
        ({"sizes": []}, "at least 1"),
        ({"sizes": [-1, 2]}, "greater than or equal to 0"),
        ({"known": -1}, "greater than or equal to 0"),
    ],
)
def test_calls_that_do_not_add_up_are_refused_with_what_is_wrong(client, ledger, kit, parts, words):
    known = {"request_id": ["k"], "account_id": ["a"], "side": ["customer"]}
    changes = {name: known | {"call": [value]} if name == "known" else value for name, value in parts.items()}
    body = message(ledger, **(changes | {"items": items(kit, kit.item("a"))} if parts else {}))
    answer = authorize(client, body)
    assert (answer.status_code, words in answer.json()["error"]) == (422, True), answer.text
    assert ledger.store.find(["a"]) == {}
