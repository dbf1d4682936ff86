from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feature_repo.columns import FeatureColumns, describe, feast_name, read_columns
from shadowprice.errors import InvalidInput, Unavailable


def test_a_column_belongs_to_the_sides_that_have_a_value_in_it(account: pd.DataFrame) -> None:
    interactions = pd.DataFrame({"side": ["customer", "merchant"], "h_n": [1.0, 2.0], "h_m": [None, 3.0]})
    columns = describe(account, interactions)
    assert columns.profile == {
        "customer": ("x_spend", "x_share_y", "c_city"),
        "merchant": ("x_share_y", "c_city"),
    }
    assert columns.interactions == {"customer": ("h_n",), "merchant": ("h_n", "h_m")}


def test_the_description_survives_json(account: pd.DataFrame) -> None:
    columns = describe(account, embedding_width=3, model_versions=["gcn2-1", "gcn2-2"])
    assert FeatureColumns.from_json(columns.to_json()) == columns


def test_registering_a_model_again_makes_it_the_newest() -> None:
    columns = FeatureColumns(profile={"customer": ()}, model_versions=("v1", "v2")).with_model("v1")
    assert columns.model_versions == ("v2", "v1")
    assert columns.newest_model == "v1"


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"profile": {}}, "profile"),
        ({"profile": {"customer": ("income",)}}, "profile.customer"),
        ({"profile": {"customer": ("x_a", "x_A")}}, "profile.customer"),
        ({"profile": {"rider": ()}}, "profile"),
        ({"profile": {"customer": ()}, "interactions": {"merchant": ("h_n",)}}, "interactions"),
        ({"profile": {"customer": ()}, "interactions": {"customer": ("x_n",)}}, "interactions.customer"),
        ({"profile": {"customer": ()}, "embedding_width": 0}, "embedding_width"),
        ({"profile": {"customer": ()}, "model_versions": ("v1 or so",)}, "model_versions"),
    ],
)
def test_a_wrong_description_is_refused_by_field(arguments: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        FeatureColumns(**arguments)  # type: ignore[arg-type]
    assert caught.value.field == field


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema_version": 2}', '{"schema_version": 1, "profile": 3}'])
def test_a_file_that_is_no_description_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        FeatureColumns.from_json(text)


def test_a_folder_without_a_description_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="`shadowprice job featurize` makes it"):
        read_columns(tmp_path)


@given(st.lists(st.from_regex(r"x_[ay_]{1,6}", fullmatch=True), min_size=2, max_size=20, unique=True))
def test_no_two_columns_share_a_name_in_feast_and_none_ends_in_y(names: list[str]) -> None:
    inside = [feast_name(side, name) for side in ("customer", "merchant") for name in names]  # type: ignore[arg-type]
    assert len(set(inside)) == len(inside)
    assert not any(name.endswith("_y") for name in inside)
