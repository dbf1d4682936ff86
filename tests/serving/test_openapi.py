"""Both services against their own OpenAPI descriptions: whatever schemathesis makes of them, no 5xx."""

import re
from contextlib import suppress
from datetime import UTC, datetime

import httpx
import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable

EXAMPLES = 12


def operations(url):
    from schemathesis import openapi

    schema = openapi.from_url(f"{url}/openapi.json")
    found = [result.ok() for result in schema.get_all_operations()]
    return {f"{operation.method.upper()} {operation.path}": operation for operation in found}


def asked(operation, mode):
    """Statuses that drawn calls of an operation are answered with."""
    from schemathesis import GenerationMode

    statuses = set()

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=GenerationMode(mode)))
    def ask(case):
        response = case.call()
        statuses.add(response.status_code)
        assert response.status_code < 500, (operation.label, response.status_code, response.text[:500])

    with suppress(Unsatisfiable):  # raised where nothing about an operation can be wrong
        ask()
    return statuses


@pytest.mark.parametrize("service", ["predictor", "ledger"])
@pytest.mark.parametrize("mode", ["positive", "negative"])
def test_no_call_that_fits_or_breaks_the_description_makes_a_service_fail(world, service, mode):
    found = operations(getattr(world, service).url)
    statuses = {name: asked(operation, mode) for name, operation in found.items()}
    if service == "predictor":
        assert all(seen for name, seen in statuses.items() if name.startswith("POST"))
        decided = statuses["POST /v1/models/{model_name}:predict"]
        assert (200 in decided) == (mode == "positive")
    elif mode == "positive":
        # What fits the description is understood; whether it was ever decided is another matter.
        assert statuses["GET /v1/totals"] == {200}
        assert 200 in statuses["GET /v1/traffic"]
        for name in ("POST /v1/authorizations", "POST /v1/outcomes", "POST /v1/releases"):
            assert statuses[name]
            assert statuses[name] <= {200, 404, 409, 422}
    assert httpx.get(f"{world.predictor.url}/v2/health/ready").status_code == 200


def test_the_predictors_description_has_the_endpoints_of_the_contract(world):
    names = set(operations(world.predictor.url))
    assert names >= {"POST /v1/models/{model_name}:predict", "POST /v2/models/{model_name}/infer", "GET /metrics"}
    assert not [name for name in names if "repository" in name]


def test_the_refusals_of_guarded_routes_are_described(world):
    statuses = {"401", "403", "408", "413", "429", "503"}
    for service in (world.predictor, world.ledger):
        paths = httpx.get(f"{service.url}/openapi.json").json()["paths"]
        for path, methods in paths.items():
            for method, operation in methods.items():
                guarded = method == "post" or path in ("/v1/totals", "/v1/traffic", "/v1/usage", "/v1/moves")
                assert (operation["responses"].keys() >= statuses) == guarded, path
                assert ("415" in operation["responses"]) == (method == "post")


def references(node):
    """Every ``$ref`` below a node."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref":
                yield value
            else:
                yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


@pytest.mark.parametrize("service", ["predictor", "ledger"])
def test_every_reference_of_a_description_leads_somewhere_in_it(world, service):
    document = httpx.get(f"{getattr(world, service).url}/openapi.json").json()
    assert "$defs" not in str(document)
    found = set(references(document))
    assert found
    for reference in found:
        node = document
        assert reference.startswith("#/"), reference
        for part in reference[2:].split("/"):
            node = node[part]
        assert node["type"] in ("object", "array")


def test_what_the_ledger_takes_fits_its_description_and_what_it_refuses_by_form_does_not(world):
    document = httpx.get(f"{world.ledger.url}/openapi.json").json()

    def fits(path, body):
        schema = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        return jsonschema.Draft202012Validator({**schema, "components": document["components"]}).is_valid(body)

    items = {
        "request_id": ["described-1"],
        "account_id": ["c1"],
        "side": ["customer"],
        "level": [1],
        "incentive": [50],
        "response": [0.5],
        "expected_cost": [25.0],
        "propensity": [1.0],
        "reason": ["optimal"],
        "propensities": [[0, 1, 0, 0]],
        "features_at": [None],
    }
    call = {"campaign": "spring", "model_version": "m", "price_version": 1, "items": items}
    known = {"request_id": ["described-2"], "account_id": ["c1"], "side": ["customer"], "call": [0]}
    now = datetime.now(UTC).isoformat()
    data = {"request_id": "described-1", "redeemed": True, "cost": 50, "observed_at": now}
    event = {"specversion": "1.0", "id": "described-1", "source": "test", "type": "t", "data": data}
    release = {"campaign": "spring", "request_ids": ["described-1"]}
    refund = event | {"id": "described-2", "data": data | {"redeemed": False, "cost": 0, "kind": "refund"}}
    for path, body, status in (
        ("/v1/authorizations", call, 200),
        ("/v1/authorizations", call | {"items": items | {"reason": ["because"]}}, 422),
        ("/v1/authorizations", call | {"items": items | {"request_id": [""]}}, 422),
        ("/v1/authorizations", call | {"items": {}}, 422),
        ("/v1/authorizations", call | {"more": 1}, 422),
        ("/v1/authorizations", call | {"sizes": [1]}, 200),
        ("/v1/authorizations", call | {"sizes": [-1]}, 422),
        ("/v1/authorizations", call | {"known": known}, 200),
        ("/v1/authorizations", call | {"known": known | {"side": ["both"]}}, 422),
        ("/v1/outcomes", event, 200),
        ("/v1/outcomes", [event], 200),
        ("/v1/outcomes", event | {"data": data | {"cost": -1}}, 422),
        ("/v1/outcomes", [], 422),
        ("/v1/corrections", refund, 200),
        ("/v1/corrections", [refund], 200),
        ("/v1/corrections", event, 422),
        ("/v1/corrections", refund | {"data": refund["data"] | {"kind": "gift"}}, 422),
        ("/v1/releases", release | {"request_ids": ["x" * 257]}, 422),
        ("/v1/authorizations", call | {"items": items | {"request_id": ["described-3"]}}, 200),
        ("/v1/releases", release | {"request_ids": ["described-3"]}, 200),
    ):
        answer = httpx.post(f"{world.ledger.url}{path}", json=body)
        assert answer.status_code == status, (path, answer.text)
        assert fits(path, body) == (status == 200), path


def strict(document):
    """The description, in which no model has a field that it does not name."""
    for model in document["components"]["schemas"].values():
        if "properties" in model:
            model.setdefault("additionalProperties", False)
    return document


REQUEST = {"request_id": "typed-1", "account_id": "c1", "side": "customer"}
TENSORS = [{"name": name, "datatype": "BYTES", "shape": [1], "data": [value]} for name, value in REQUEST.items()]
V1, V2 = "/v1/models/{model_name}", "/v2/models/{model_name}"
ITEMS = {
    "request_id": ["typed-2"],
    "account_id": ["c1"],
    "side": ["customer"],
    "level": [1],
    "incentive": [50],
    "response": [0.5],
    "expected_cost": [25.0],
    "propensity": [1.0],
    "reason": ["optimal"],
    "propensities": [[0, 1, 0, 0]],
}
CALL = {"campaign": "spring", "model_version": "m", "price_version": 1, "items": ITEMS}
SALE = {"request_id": "typed-2", "redeemed": True, "cost": 50, "observed_at": "2024-05-01T12:00:00Z"}
REVERSAL = SALE | {"kind": "reversal", "observed_at": "2099-05-01T12:00:00Z"}
EVENT = {"specversion": "1.0", "id": "typed-1", "source": "test", "type": "t", "data": SALE}
UNREAD = REQUEST | {"request_id": "unread", "context": {"x_unread": 1}}


@pytest.mark.parametrize(
    ("service", "path", "body", "status"),
    [
        ("predictor", "/", None, 200),
        ("predictor", "/v1/models", None, 200),
        ("predictor", V1, None, 200),
        ("predictor", "/v2", None, 200),
        ("predictor", "/v2/health/live", None, 200),
        ("predictor", "/v2/health/ready", None, 200),
        ("predictor", "/v2/models", None, 200),
        ("predictor", V2, None, 200),
        ("predictor", f"{V2}/ready", None, 200),
        ("predictor", f"{V1}:predict", {"instances": [REQUEST]}, 200),
        ("predictor", f"{V1}:predict", {"instances": [REQUEST | {"account_id": "c2"}]}, 409),
        ("predictor", f"{V1}:predict", {"instances": [{}]}, 400),
        ("predictor", f"{V1}:predict", {"instances": [UNREAD]}, 422),
        ("predictor", f"{V1}:explain", {"instances": [REQUEST]}, 200),
        ("predictor", f"{V1}:explain", {}, 400),
        ("predictor", f"{V2}/infer", {"id": "call", "inputs": TENSORS}, 200),
        ("predictor", f"{V2}/infer", {"inputs": TENSORS[:1]}, 400),
        ("ledger", "/healthz", None, 200),
        ("ledger", "/readyz", None, 200),
        ("ledger", "/v1/totals", None, 200),
        ("ledger", "/v1/totals?campaign=autumn", None, 404),
        ("ledger", "/v1/traffic?limit=3", None, 200),
        ("ledger", "/v1/traffic?limit=-1", None, 400),
        ("ledger", "/v1/authorizations", CALL, 200),
        ("ledger", "/v1/authorizations", CALL | {"campaign": "autumn"}, 404),
        ("ledger", "/v1/outcomes", EVENT, 200),
        ("ledger", "/v1/outcomes", EVENT | {"data": SALE | {"cost": 40}}, 409),
        ("ledger", "/v1/corrections", EVENT | {"id": "typed-2", "data": REVERSAL}, 200),
        ("ledger", "/v1/corrections", EVENT, 422),
        ("ledger", "/v1/releases", {"campaign": "spring", "request_ids": ["typed-3"]}, 404),
        ("ledger", "/v1/releases", {"campaign": "spring", "request_ids": ["typed-2"]}, 409),
    ],
)
def test_an_answer_has_the_fields_that_the_description_names(world, service, path, body, status):
    url = getattr(world, service).url
    document = strict(httpx.get(f"{url}/openapi.json").json())
    method = "GET" if body is None else "POST"
    answer = httpx.request(method, url + path.replace("{model_name}", "spring"), json=body)
    assert answer.status_code == status, answer.text
    described = document["paths"][path.partition("?")[0]][method.lower()]["responses"][str(status)]
    schema = described["content"]["application/json"]["schema"]
    jsonschema.Draft202012Validator({**schema, "components": document["components"]}).validate(answer.json())


@pytest.mark.parametrize("service", ["predictor", "ledger"])
def test_the_body_of_every_status_is_a_model_with_named_fields(world, service):
    document = httpx.get(f"{getattr(world, service).url}/openapi.json").json()
    models = document["components"]["schemas"]
    for path, methods in document["paths"].items():
        for operation in methods.values():
            for status, described in operation["responses"].items():
                (media,) = described["content"]
                if path == "/metrics":
                    assert media == "text/plain"
                    continue
                name = described["content"][media]["schema"]["$ref"].rpartition("/")[2]
                assert models[name]["properties"], (path, status)
                assert (name == "Error") == (status != "200"), (path, status)


@pytest.mark.parametrize("service", ["predictor", "ledger"])
def test_the_page_of_the_description_loads_nothing_from_another_host(world, service):
    url = getattr(world, service).url
    page = httpx.get(f"{url}/docs")
    assert page.status_code == 200
    addresses = re.findall(r"""(?:src|href|url)(?:=|: )["']([^"']+)""", page.text)
    assert len(addresses) == 4
    assert "//" not in "".join(addresses)
    for address in addresses:
        assert httpx.get(f"{url}/{address}").status_code == 200
