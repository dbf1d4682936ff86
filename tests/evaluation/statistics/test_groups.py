import numpy as np
import pandas as pd
import pytest

from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.groups import codes, crossed


@pytest.mark.parametrize("dtype", ["object", "string", "string[pyarrow]", "category"])
def test_identifiers_of_every_pandas_string_type_give_the_codes_pandas_gives(dtype):
    ids = pd.Series(["m2", "c1", "m2", "c10"], dtype=dtype)
    of, groups = codes(ids, field="account")
    assert groups == 3
    assert of.tolist() == pd.factorize(np.array(["m2", "c1", "m2", "c10"]), sort=True)[0].tolist()


def test_a_missing_identifier_is_refused_with_its_row():
    with pytest.raises(InvalidInput, match=r"account.*first rows: 1"):
        codes(pd.Series(["a", None, "b"], dtype="string"), field="account")


def test_crossed_columns_give_one_code_per_combination_as_groupby_does():
    frame = pd.DataFrame({"a": list("xxyyx"), "b": [1, 2, 1, 1, 1], "c": list("pppqp")})
    of, groups = crossed(frame["a"], frame["b"], frame["c"], field="cells")
    assert of.tolist() == frame.groupby(["a", "b", "c"], sort=True).ngroup().tolist()
    assert groups == 4


def test_columns_of_different_length_are_refused():
    with pytest.raises(InvalidInput, match="cells"):
        crossed(["a", "b"], ["a"], field="cells")
