"""A row of the compact store gives back what was put in, whatever it is compressed against, and is short."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feature_repo.rows import packed, shape_of, unpacked
from feature_repo.sdk import ValueProto

numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.decimals(allow_nan=False, allow_infinity=False, places=4).map(str),
    st.integers(-(10**30), 10**30).map(str),
    st.sampled_from(["-0", "-0.0", "007", "1.", ".5", "1e5", "1.0e-07", "--3", "1.2.3", "x1", "1_000"]),
)
texts = st.one_of(
    st.text(),
    st.text(alphabet='{}[]":,. -+eE0123456789abc_\x00'),
    st.lists(numbers).map(",".join),
    st.dictionaries(st.text(max_size=5), st.floats(allow_nan=False) | st.text(max_size=4)).map(json.dumps),
)
values = st.one_of(
    texts.map(lambda text: ValueProto(string_val=text)),
    st.floats(allow_nan=False).map(lambda number: ValueProto(double_val=number)),
    st.integers(-(2**63), 2**63 - 1).map(lambda number: ValueProto(int64_val=number)),
    st.lists(st.floats(width=32, allow_nan=False)).map(
        lambda each: ValueProto(float_list_val={"val": each})  # type: ignore[arg-type]
    ),
    st.just(ValueProto()),
)
entities = st.dictionaries(st.text(max_size=6), values, max_size=4)


@given(entities, entities)
def test_a_row_gives_back_every_value(entity: dict[str, ValueProto], first: dict[str, ValueProto]) -> None:
    like = shape_of(first)
    assert unpacked(packed(entity, like), like) == entity


def test_numbers_that_are_not_equal_to_themselves_come_back() -> None:
    row = packed({"v": ValueProto(float_list_val={"val": [np.nan, np.inf, -0.0]})}, b"")  # type: ignore[arg-type]
    found = unpacked(row, b"")["v"].float_list_val.val
    assert np.isnan(found[0])
    assert (found[1], np.signbit(found[2])) == (np.inf, True)


def test_a_row_holds_little_more_than_its_numbers() -> None:
    random = np.random.default_rng(0)

    def account() -> dict[str, ValueProto]:
        columns = {f"h_partner_mean_{name}": float(np.float32(random.normal())) for name in "abcdefgh"}
        return {
            "customer_embedding_vector": ValueProto(
                float_list_val={"val": random.normal(size=64).astype(np.float32).tolist()}  # type: ignore[arg-type]
            ),
            "customer_embedding_model": ValueProto(string_val="joint_gnn-584d5d5837f1"),
            "customer_account_columns": ValueProto(string_val=json.dumps({"snapshot_at": 1772409600, **columns})),
        }

    like = shape_of(account())
    sizes = [len(packed(account(), like)) for _ in range(100)]
    plain = sum(len(value.SerializeToString()) for value in account().values())
    # 256 bytes of the vector, and about ten of each number of 17 digits in the text.
    assert np.mean(sizes) < 256 + 8 * 11 + 30 < 0.7 * plain


@pytest.mark.parametrize("row", [b"", b"\x05ab", b"\x02\xff\xff", b"\xff"])
def test_a_damaged_row_is_refused(row: bytes) -> None:
    with pytest.raises(ValueError, match="damaged"):
        unpacked(row, b"")
