import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.http.web import json_response
from serving.protocol import (
    OUTPUTS,
    Answers,
    decode_v1,
    decode_v2,
    encode_v1,
    encode_v2,
    request_name,
    requested_outputs,
)
from shadowprice.errors import InvalidRequest

GOOD = {"request_id": "r1", "account_id": "a1", "side": "customer"}


def v2(**columns):
    return {
        "inputs": [
            {"name": name, "datatype": "BYTES", "shape": [len(values)], "data": values}
            for name, values in columns.items()
        ]
    }


def good_v2(count=1):
    return v2(request_id=[f"r{i}" for i in range(count)], account_id=["a"] * count, side=["merchant"] * count)


def changed(position, **changes):
    body = good_v2()
    body["inputs"][position] |= changes
    return body


def test_a_partner_may_be_named_or_left_out():
    named = decode_v1({"instances": [GOOD | {"partner_id": "m1"}, GOOD]}, 3)
    assert named.partner_id == ["m1", ""]
    assert decode_v1({"instances": [GOOD]}, 3).partner_id == decode_v2(good_v2(), 3).partner_id == [""]
    body = good_v2(2)
    body["inputs"] += v2(partner_id=["", "m2"])["inputs"]
    assert decode_v2(body, 3).partner_id == ["", "m2"]


@pytest.mark.parametrize(
    ("body", "field", "rows"),
    [
        (None, "body", ()),
        ([], "body", ()),
        ({}, "instances", ()),
        ({"instances": {}}, "instances", ()),
        ({"instances": []}, "instances", ()),
        ({"instances": [GOOD] * 4}, "instances", ()),
        ({"instances": [GOOD, 3]}, "instances", (1,)),
        ({"instances": [GOOD, GOOD | {"extra": 1}]}, "instances", (1,)),
        ({"instances": [GOOD, {"request_id": "r"}]}, "instances", (1,)),
        ({"instances": [GOOD | {"request_id": ""}, GOOD]}, "request_id", (0,)),
        ({"instances": [GOOD, GOOD | {"request_id": 7}]}, "request_id", (1,)),
        ({"instances": [GOOD | {"account_id": "x" * 257}]}, "account_id", (0,)),
        ({"instances": [GOOD | {"account_id": "a\x00b"}]}, "account_id", (0,)),
        ({"instances": [GOOD | {"side": "Customer"}]}, "side", (0,)),
        ({"instances": [GOOD | {"side": ["customer"]}]}, "side", (0,)),
        ({"instances": [GOOD | {"partner_id": "m1"}, GOOD | {"partner_id": None}]}, "partner_id", (1,)),
        ({"instances": [GOOD | {"partner_id": "x" * 257}]}, "partner_id", (0,)),
    ],
)
def test_a_malformed_v1_body_is_refused_with_the_field_and_rows(body, field, rows):
    with pytest.raises(InvalidRequest) as refusal:
        decode_v1(body, 3)
    assert (refusal.value.field, refusal.value.rows, refusal.value.status) == (field, rows, 400)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ("text", "body"),
        ({"inputs": "x"}, "inputs"),
        ({"inputs": []}, "inputs"),
        ({"inputs": [7]}, "inputs[0]"),
        (v2(request_id=["r"], account_id=["a"]), "inputs"),
        (v2(request_id=["r"], account_id=["a"], side=["customer"], price=["1"]), "inputs[3].name"),
        ({"inputs": good_v2()["inputs"] + good_v2()["inputs"][:1]}, "inputs[3].name"),
        (v2(request_id=["r", "s"], account_id=["a", "b"], side=["customer"]), "inputs"),
        (changed(0, datatype="FP64"), "inputs.request_id.datatype"),
        (changed(1, shape=[2]), "inputs.account_id.shape"),
        (changed(1, shape=[1, 1]), "inputs.account_id.shape"),
        (changed(1, shape=[True]), "inputs.account_id.shape"),
        (changed(1, shape=1), "inputs.account_id.shape"),
        (changed(2, data=None), "inputs.side.data"),
        (changed(2, data=["nobody"]), "side"),
        (changed(0, data=[" \n"]), "request_id"),
        (good_v2(4), "inputs.request_id.data"),
        (good_v2(0), "inputs.request_id.data"),
    ],
)
def test_a_malformed_v2_body_is_refused_with_the_field(body, field):
    with pytest.raises(InvalidRequest) as refusal:
        decode_v2(body, 3)
    assert refusal.value.field == field


ITEM = {"item_id": "i1", "action": "cart", "ts": "2026-03-01T10:00:00+01:00"}


@pytest.mark.parametrize(
    ("session", "field"),
    [
        ("[", "session"),
        (7, "session"),
        ([ITEM] * 101, "session"),
        ([ITEM | {"item_id": "x" * 200, "brand": "y" * 100}] * 60, "session"),
        ([ITEM, "i2"], "session[1]"),
        ([ITEM, ITEM | {"colour": "red"}], "session[1].colour"),
        ([{"item_id": "i1", "action": "cart"}], "session[0].ts"),
        ([ITEM | {"item_id": None}], "session[0].item_id"),
        ([ITEM | {"item_id": 3}], "session[0].item_id"),
        ([ITEM | {"category": ""}], "session[0].category"),
        ([ITEM | {"action": "look"}], "session[0].action"),
        ([ITEM | {"action": ["cart"]}], "session[0].action"),
        ([ITEM | {"price_level": 8}], "session[0].price_level"),
        ([ITEM | {"price_level": True}], "session[0].price_level"),
        ([ITEM | {"ts": "2026-03-01T10:00:00"}], "session[0].ts"),
        ([ITEM | {"ts": "yesterday"}], "session[0].ts"),
        ([ITEM | {"ts": 1772355600}], "session[0].ts"),
        ([ITEM | {"ts": "0001-01-01T00:00:00+23:59"}], "session[0].ts"),
        ([ITEM | {"ts": "1066-10-14T09:00:00Z"}], "session[0].ts"),
        ([ITEM | {"ts": "2262-05-01T00:00:00Z"}], "session[0].ts"),
    ],
)
def test_a_malformed_session_is_refused_with_the_field_and_row(session, field):
    with pytest.raises(InvalidRequest) as refusal:
        decode_v1({"instances": [GOOD, GOOD | {"session": session}]}, 3)
    assert (refusal.value.field, refusal.value.rows, refusal.value.status) == (field, (1,), 400)
    body = good_v2(2)
    body["inputs"] += v2(session=["", session if isinstance(session, str) else json.dumps(session)])["inputs"]
    with pytest.raises(InvalidRequest) as refusal:
        decode_v2(body, 3)
    assert (refusal.value.field, refusal.value.rows) == (field, (1,))
    with pytest.raises(InvalidRequest, match=r"context\.session.*beside"):
        decode_v1({"instances": [GOOD | {"context": {"session": session}}]}, 3)


def test_a_session_is_read_in_order_of_time_and_alike_by_both_protocols():
    later = {"item_id": "i0", "action": "order", "ts": "2026-03-01T09:00:00.5Z", "brand": None, "price_level": 2}
    given = [later, ITEM, ITEM | {"item_id": "i0"}]
    first = decode_v1({"instances": [GOOD | {"session": given}, GOOD, GOOD | {"session": []}]}, 3)
    body = good_v2(3)
    body["inputs"] += v2(session=[json.dumps(given), "", "[]"])["inputs"]
    second = decode_v2(body, 3)
    assert first.context == second.context
    at = "2026-03-01T09:00:00+00:00"
    inside = {"item_id": "i0", "action": "order", "ts": "2026-03-01T09:00:00.500000+00:00", "price_level": 2}
    wanted = [{"item_id": name, "action": "cart", "ts": at} for name in ("i0", "i1")]
    assert first.context == {"session": [[*wanted, inside], None, []]}


def test_a_request_name_that_is_not_text_is_refused():
    with pytest.raises(InvalidRequest, match="id"):
        request_name({"id": 7})
    assert request_name({"id": "call-7"}) == "call-7"
    assert request_name({}) is None


def test_only_the_outputs_that_are_asked_for_are_given_in_their_order():
    assert requested_outputs({}) == requested_outputs({"outputs": []}) == tuple(OUTPUTS)
    assert requested_outputs({"outputs": [{"name": "offer_id"}, {"name": "incentive"}]}) == ["offer_id", "incentive"]


@pytest.mark.parametrize(
    ("outputs", "field"),
    [
        ([{"name": "uplift"}], "outputs[0].name"),
        ([{"name": "level"}, {"name": "level"}], "outputs[1].name"),
        ([{}], "outputs[0].name"),
        (["level"], "outputs[0].name"),
        ([{"name": ["level"]}], "outputs[0].name"),
        ({"name": "level"}, "outputs"),
    ],
)
def test_outputs_that_there_are_not_are_refused(outputs, field):
    with pytest.raises(InvalidRequest) as refusal:
        requested_outputs({"outputs": outputs})
    assert refusal.value.field == field


identifiers = st.text(min_size=1, max_size=40).filter(str.isprintable)


@given(st.lists(st.tuples(identifiers, identifiers, st.sampled_from(["customer", "merchant"])), min_size=1, max_size=5))
def test_both_protocols_decode_the_same_requests(rows):
    columns = {name: list(column) for name, column in zip(GOOD, zip(*rows, strict=True), strict=True)}
    one = decode_v1({"instances": [dict(zip(GOOD, row, strict=True)) for row in rows]}, 5)
    two = decode_v2(v2(**columns), 5)
    assert one == two
    assert list(zip(one.request_id, one.account_id, one.side, strict=True)) == rows


def test_both_protocols_encode_the_same_answers():
    answers = Answers(
        incentive=np.array([50, 2**53 + 1]),
        unit_cost=np.array([50, 0]),
        level=np.array([1, -1], dtype=np.int32),
        offer_id=["coupon-50", ""],
        response=np.array([0.1, 1 / 3]),
        expected_cost=np.array([5.0, 0.0]),
        propensity=np.array([1.0, 0.25]),
        reason=["tie", "budget_exhausted"],
        repeat=np.array([False, True]),
        price_version=np.array([3, 2]),
        model_version=["m", "earlier"],
        arm=["policy", "holdout"],
        limited_by=["", "north"],
        active_price_version=3,
        active_model_version="m",
        price_age_seconds=1.5,
        degraded=True,
    )
    one = json.loads(json_response(encode_v1(answers)).body)["predictions"]
    two = json.loads(json_response(encode_v2(answers, "spring", "call-1")).body)
    assert [output["datatype"] for output in two["outputs"]] == list(OUTPUTS.values())
    assert all(output["shape"] == [2] for output in two["outputs"])
    columns = {output["name"]: output["data"] for output in two["outputs"]}
    assert one == [{name: columns[name][row] for name in OUTPUTS} for row in range(2)]
    assert one[1]["incentive"] == 2**53 + 1
    assert (one[1]["repeat"], one[1]["price_version"], one[1]["model_version"]) == (True, 2, "earlier")
    three = json.loads(json_response(encode_v2(answers, "spring", None, ["arm", "level"])).body)
    assert three["outputs"] == [each for name in ("arm", "level") for each in two["outputs"] if each["name"] == name]
    assert (two["model_version"], two["parameters"]["price_version"], two["parameters"]["model_version"]) == (
        "m",
        3,
        "m",
    )
    assert two["id"] == "call-1"
    assert two["parameters"] == {
        "price_version": 3,
        "model_version": "m",
        "price_age_seconds": 1.5,
        "degraded": True,
    }
