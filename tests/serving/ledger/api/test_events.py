import json

import pytest
from cloudevents.conversion import to_binary, to_structured
from cloudevents.http import CloudEvent

from serving.ledger.api.corrections import read_corrections
from serving.ledger.api.events import read_events
from shadowprice.errors import InvalidRequest, ShadowpriceError


def event(event_id="e1", request_id="c1", source="shop", **data):
    values = {"request_id": request_id, "redeemed": True, "cost": 50, "observed_at": "2024-05-01T13:00:00+02:00"}
    return {
        "specversion": "1.0",
        "id": event_id,
        "source": source,
        "type": "shadowprice.outcome.v1",
        "data": values | data,
    }


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"specversion": "0.3"}, "specversion"),
        ({"specversion": None}, "specversion"),
        ({"id": ""}, "id"),
        ({"id": 7}, "id"),
        ({"source": "x" * 300}, "source"),
        ({"type": None}, "type"),
        ({"data": None}, "data"),
        ({"data": {}}, "data.request_id"),
    ],
)
def test_a_broken_envelope_is_refused_with_its_field(change, field):
    broken = {key: value for key, value in (event() | change).items() if value is not None}
    with pytest.raises(ShadowpriceError) as refusal:
        read_events(json.dumps(broken).encode(), {})
    assert (refusal.value.field, refusal.value.status) == (field, 422)


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"cost": -1}, "data.cost"),
        ({"cost": 1.5}, "data.cost"),
        ({"cost": "50"}, "data.cost"),
        ({"cost": 10**30}, "data.cost"),
        ({"amount": -1}, "data.amount"),
        ({"amount": 10.5}, "data.amount"),
        ({"redeemed": "yes"}, "data.redeemed"),
        ({"redeemed": 2}, "data.redeemed"),
        ({"response": -0.1}, "data.response"),
        ({"observed_at": "2024-05-01T13:00:00"}, "data.observed_at"),
        ({"observed_at": "yesterday"}, "data.observed_at"),
        ({"request_id": ""}, "data.request_id"),
        ({"price": 1}, "data.price"),
    ],
)
def test_broken_data_is_refused_with_its_field(data, field):
    with pytest.raises(ShadowpriceError) as refusal:
        read_events(json.dumps(event(**data)).encode(), {})
    assert refusal.value.field == field


@pytest.mark.parametrize("read", [read_events, read_corrections])
@pytest.mark.parametrize("depth", [300, 1000])
@pytest.mark.parametrize("form", ["%s", '{"request_id": %s}'])
def test_deep_data_of_a_binary_event_are_refused(read, depth, form):
    headers = {"ce-specversion": "1.0", "ce-id": "e", "ce-source": "s", "ce-type": "t"}
    with pytest.raises(InvalidRequest) as refusal:
        read((form % ("[" * depth + "]" * depth)).encode(), headers)
    assert (refusal.value.field, refusal.value.status) == ("data", 400)


def test_an_outcome_without_redeemed_and_response_is_refused():
    bare = event()
    del bare["data"]["redeemed"]
    with pytest.raises(ShadowpriceError) as refusal:
        read_events(json.dumps(bare).encode(), {})
    assert refusal.value.field == "data.redeemed"


def test_structured_batched_and_binary_events_say_the_same():
    one = event(redeemed=1)
    structured = read_events(json.dumps(one | {"time": "2024-05-01T12:00:00Z", "traceparent": "x"}).encode(), {})
    (batched,) = read_events(json.dumps([event()]).encode(), {})
    headers = {f"ce-{name}": one[name] for name in ("specversion", "id", "source", "type")}
    binary = read_events(json.dumps(one["data"]).encode(), headers)
    assert structured == binary
    assert structured[0].content == batched.content
    assert structured[0].redeemed is True


@pytest.mark.parametrize("mode", [to_structured, to_binary])
def test_what_the_cloudevents_library_writes_is_read_in_both_modes(mode):
    """The library is the reference for the wire format."""
    one = event(source="//läden/7 %")
    made = CloudEvent({"id": one["id"], "source": one["source"], "type": one["type"], "subject": "x"}, one["data"])
    headers, body = mode(made)
    (read,) = read_events(body, {name.lower(): value for name, value in headers.items()})
    (expected,) = read_events(json.dumps(one).encode(), {})
    if mode is to_structured:
        assert read == expected
    else:
        # The library leaves the encoding of headers to the caller.
        headers["ce-source"] = "//l%C3%A4den/7 %25"
        assert read_events(body, headers) == [expected]
