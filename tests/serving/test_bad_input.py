"""Whatever a caller sends, the services answer 4xx with a field, and go on."""

import json
from itertools import product

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

OVER_HTTP = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["", "customer", "merchant", "BYTES", "a" * 300, "\ud800", "\x00", "c1", "ü", "1.0"]),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)),
    max_leaves=8,
)


def shaped(names, inner):
    """Objects that have some of the right names, so that they get past the first checks."""
    return st.dictionaries(st.one_of(st.sampled_from(names), st.text(max_size=5)), inner, max_size=len(names) + 1)


instance = shaped(["request_id", "account_id", "side"], values)
tensor = st.one_of(
    values,
    shaped(["name", "datatype", "shape", "data"], values),
    st.fixed_dictionaries(
        {
            "name": st.sampled_from(["request_id", "account_id", "side", "other"]),
            "datatype": st.sampled_from(["BYTES", "BYTES", "INT64"]),
            "shape": st.one_of(st.just([1]), st.lists(values, max_size=2)),
            "data": st.one_of(st.lists(values, max_size=2), values),
        }
    ),
)
v1_bodies = st.one_of(values, st.fixed_dictionaries({"instances": st.one_of(values, st.lists(instance, max_size=3))}))
v2_bodies = st.one_of(
    values, st.fixed_dictionaries({"inputs": st.one_of(values, st.lists(tensor, max_size=4))}, optional={"id": values})
)
item_names = [
    "request_id", "account_id", "side", "level", "incentive", "response", "expected_cost", "propensity", "reason",
]  # fmt: skip
columns = shaped(item_names, st.lists(values, max_size=3))
right = dict(
    zip(item_names, (["bad-1"], ["c1"], ["customer"], [1], [50], [0.5], [25.0], [1.0], ["optimal"]), strict=True)
)
almost_right = st.builds(lambda name, column: right | {name: column}, st.sampled_from(item_names), values)
authorizations = st.one_of(
    values,
    st.fixed_dictionaries(
        {
            "campaign": st.sampled_from(["spring", "autumn"]),
            "model_version": st.just("m"),
            "price_version": st.sampled_from([1, 0, 10**30]),
            "items": st.one_of(values, columns, almost_right),
        }
    ),
)
event = st.fixed_dictionaries(
    {
        "specversion": st.just("1.0"),
        "id": st.sampled_from(["e1", "", "\ud800"]),
        "source": st.just("s"),
        "type": st.just("t"),
        "data": st.one_of(values, shaped(["request_id", "redeemed", "response", "cost", "observed_at"], values)),
    }
)
events = st.one_of(values, event, st.lists(st.one_of(event, values), max_size=3))


def post(url, body, headers=None):
    answer = httpx.post(url, content=body, headers=headers or {"content-type": "application/json"}, timeout=20)
    assert answer.status_code < 500, (answer.status_code, answer.text, body)
    content = answer.json()
    if answer.status_code >= 400:
        assert content["error"]
    return answer.status_code, content


def encoded(body):
    return json.dumps(body).encode()


@OVER_HTTP
@given(body=v1_bodies)
def test_no_v1_body_makes_the_predictor_fail(world, body):
    status, content = post(f"{world.predictor.url}/v1/models/spring:predict", encoded(body))
    assert status in (200, 400, 409)
    if status == 400:
        assert content["field"]


@OVER_HTTP
@given(body=v2_bodies)
def test_no_v2_body_makes_the_predictor_fail(world, body):
    status, content = post(f"{world.predictor.url}/v2/models/spring/infer", encoded(body))
    assert status in (200, 400, 409)
    if status == 400:
        assert content["field"]


@OVER_HTTP
@given(body=authorizations)
def test_no_authorization_makes_the_ledger_fail(world, body):
    status, content = post(f"{world.ledger.url}/v1/authorizations", encoded(body))
    assert status in (200, 404, 409, 422)
    if status == 422:
        assert content["field"]


@OVER_HTTP
@given(body=events)
def test_no_outcome_makes_the_ledger_fail(world, body):
    status, content = post(f"{world.ledger.url}/v1/outcomes", encoded(body))
    assert status in (404, 409, 422)
    if status == 422:
        assert content["field"]


PATHS = [
    ("predictor", "/v1/models/spring:predict"),
    ("predictor", "/v2/models/spring/infer"),
    ("ledger", "/v1/authorizations"),
    ("ledger", "/v1/outcomes"),
]


NOT_JSON = [
    b"",
    b"{",
    b"\xff\xfe\x00",
    b"NaN",
    b"[" * 100_000,
    b'{"a":' * 5_000,
    b'"\\ud800"',
    b'{"instances": NaN}',
    "ü".encode("latin-1"),
    b"1e999",
]
OTHER_TYPES = ["text/plain", "multipart/form-data", "*/*"]


@pytest.mark.parametrize(("service", "path"), PATHS)
def test_what_is_not_json_is_refused_whatever_it_calls_itself(world, service, path):
    url = getattr(world, service).url + path
    for body in NOT_JSON:
        status, content = post(url, body)
        assert status in (400, 422), body
        assert content["field"]
    for content_type in OTHER_TYPES:
        status, content = post(url, b"{", {"content-type": content_type})
        assert (status, bool(content["field"])) == (415, True), content_type


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(body=st.binary(max_size=50), path=st.sampled_from(PATHS))
def test_no_bytes_make_a_service_fail(world, body, path):
    status, _ = post(getattr(world, path[0]).url + path[1], body)
    assert 400 <= status < 500


@pytest.mark.parametrize("header", ["inference-header-content-length", "ce-id", "ce-specversion"])
def test_odd_headers_do_no_harm(world, header):
    for value, (service, path) in product(["", "abc", "1.0", "-1"], PATHS):
        status, _ = post(getattr(world, service).url + path, b"{}", {header: value})
        assert 400 <= status < 500, (value, path)


@pytest.mark.parametrize(("service", "path"), PATHS)
def test_a_body_beyond_the_limit_is_refused_before_it_is_kept(world, service, path):
    def endless():
        for _ in range(80):
            yield b" " * 65536

    url = getattr(world, service).url + path
    try:
        answer = httpx.post(url, content=endless(), headers={"content-type": "application/json"}, timeout=20)
    except (httpx.WriteError, httpx.RemoteProtocolError):
        return  # refused while still being sent
    assert answer.status_code == 413
    assert answer.json()["field"] == "body"


def test_more_instances_than_configured_are_refused(world):
    instances = [{"request_id": f"many{i}", "account_id": "c1", "side": "customer"} for i in range(1001)]
    url = f"{world.predictor.url}/v1/models/spring:predict"
    status, content = post(url, encoded({"instances": instances}))
    assert (status, content["field"]) == (400, "instances")
    assert "1000" in content["error"]
    status, content = post(url, encoded({"instances": instances[:1000]}))
    assert (status, len(content["predictions"])) == (200, 1000)


NOT_OFFERED = [
    ("predictor", "GET", "/v1/models/spring:predict"),
    ("predictor", "POST", "/v1/models/spring:explain"),
    ("predictor", "POST", "/v2/models/spring/versions/1/infer"),
    ("predictor", "POST", "/v2/repository/models/spring/unload"),
    ("predictor", "POST", "/v2/repository/models/spring/load"),
    ("predictor", "POST", "/v1/models/%00%ff:predict"),
    ("predictor", "POST", "/v2/models/autumn/infer"),
    ("predictor", "GET", "/v2/models/spring?model_version=1"),
    ("predictor", "GET", "/v2/models/autumn"),
    ("predictor", "GET", "/v2/models/autumn/ready"),
    ("predictor", "GET", "/v1/models/autumn"),
    ("ledger", "GET", "/v1/authorizations"),
    ("ledger", "DELETE", "/v1/outcomes"),
    ("ledger", "GET", "/v1/totals?campaign=autumn"),
    ("ledger", "GET", "/v1/traffic?limit=-1"),
    ("ledger", "GET", "/v1/traffic?limit=99999999"),
    ("ledger", "GET", "/v1/traffic?since=yesterday"),
    ("ledger", "GET", "/v1/traffic?since=2024-05-01T00:00:00"),
    ("ledger", "GET", "/v1/traffic?since=2024-05-01T00:10:00Z"),
]


def test_what_is_not_offered_is_refused(world):
    for service, method, path in NOT_OFFERED:
        headers = {"content-type": "application/json"}
        answer = httpx.request(method, getattr(world, service).url + path, headers=headers)
        assert answer.status_code in (400, 404, 405), path
        assert httpx.get(f"{world.predictor.url}/v2/health/ready").status_code == 200, path


def test_after_all_of_this_the_logs_hold_no_failure(world):
    for service in (world.predictor, world.ledger):
        text = service._log.read_text()
        assert "Traceback" not in text, text[-3000:]
        assert len(text) < 100_000
