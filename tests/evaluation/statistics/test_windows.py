import doctest

import numpy as np
import pandas as pd

from shadowprice.evaluation.statistics import windows
from shadowprice.evaluation.statistics.windows import weeks


def test_a_week_begins_at_the_midnight_before_the_first_row() -> None:
    at = pd.to_datetime(["2016-04-14 18:00", "2016-04-20 23:59", "2016-04-21 00:00", "2016-05-01 00:00"], utc=True)
    np.testing.assert_array_equal(weeks(at.astype("int64") / 1e9), [0, 0, 1, 2])
    assert weeks([]).size == 0
    assert doctest.testmod(windows).failed == 0
