"""The distribution of the amounts of a side: known truth, from amounts and from payments alone."""

import numpy as np
import pandas as pd
import pytest

from shadowprice.campaign import Percent
from shadowprice.learning.amounts import amounts_of_side

MEAN, DEVIATION, N = 8.4, 0.8, 20_000


def drawn() -> tuple[np.ndarray, pd.DataFrame]:
    amount = np.exp(MEAN + DEVIATION * np.random.default_rng(2).normal(size=N))
    nothing = np.full(N, np.nan)
    return amount, pd.DataFrame({"amount": nothing, "amount_least": nothing, "amount_most": nothing})


def test_logged_amounts_give_the_mean_and_deviation_of_their_logarithm() -> None:
    amount, rows = drawn()
    found = amounts_of_side(rows.assign(amount=amount))
    assert found == pytest.approx([np.log(amount).mean(), np.log(amount).std()], rel=1e-6)


def test_payments_alone_tell_the_distribution_where_most_are_cut_at_the_cap_or_below_the_least_spend() -> None:
    amount, rows = drawn()
    share, cap = Percent(share=20, least=3000), 1000
    paid = share.paid(amount, cap)
    inside, above, below = (paid > 0) & (paid < cap), paid >= cap, paid == 0
    assert inside.mean() < 0.4
    rows.loc[inside, "amount"] = paid[inside] / 0.2
    rows.loc[above, "amount_least"] = 5000
    rows.loc[below, "amount_most"] = 3000
    found = amounts_of_side(rows)
    # Three standard errors of what all amounts would tell, and more for what is cut.
    assert found == pytest.approx([MEAN, DEVIATION], abs=0.04)
    # The known amounts alone would be far off.
    assert abs(np.log(rows["amount"]).std() - DEVIATION) > 0.5


def test_a_side_that_tells_no_amount_has_no_distribution() -> None:
    _, rows = drawn()
    assert amounts_of_side(rows) is None
    assert amounts_of_side(rows[["amount"]].assign(amount=5.0)) is None
    one = amounts_of_side(rows.head(1).assign(amount=5000.0))
    assert one == pytest.approx([np.log(5000), 0])
