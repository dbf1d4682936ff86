"""Propensities that cannot have led to the shares found."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from operations.prepare import PrepareJob
from operations.prepare import run as prepare
from shadowprice.currency import Currency
from shadowprice.datasets import load
from shadowprice.datasets.folder import write_tables
from shadowprice.errors import InvalidTable
from shadowprice.evidence.dropped import dropped
from shadowprice.evidence.faults import refuse_faults
from shadowprice.tables import Tables, campaign_from_tables, labeled


def refuse(tables: Tables, **more: object) -> None:
    refuse_faults(tables, campaign_from_tables(tables), Currency(), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(5))
def test_a_trial_that_was_drawn_as_planned_is_accepted(make, seed: int) -> None:
    refuse(make("gift", seed=seed)[1])


def test_shares_that_the_propensities_rule_out_are_refused_with_both_figures(make) -> None:
    trial, tables = make()
    wrong = np.array([0.4, 0.2, 0.2, 0.2])[trial.level]
    with pytest.raises(InvalidTable) as error:
        refuse(tables.replaced(exposure=tables.exposure.assign(propensity=wrong)))
    share = (trial.level == 0).mean()
    assert f"$0.00 was planned for 40.0% of the offers of customers and stands in {share:.1%} of 3,000" in str(
        error.value
    )
    assert "give the probability with which each offer was drawn" in str(error.value)


def test_propensities_that_do_not_add_up_to_1_are_refused(make) -> None:
    tables = make()[1]
    with pytest.raises(InvalidTable, match=r"of the levels of customers add up to 1\.6, not to 1"):
        refuse(tables.replaced(exposure=tables.exposure.assign(propensity=0.4)))


def test_a_log_without_a_draw_and_one_with_confounders_are_not_compared(make) -> None:
    tables = make()[1]
    refuse(tables.replaced(exposure=tables.exposure.assign(propensity=1.0)))
    refuse(tables.replaced(exposure=tables.exposure.assign(propensity=0.4)), confounders=["customer"])


def test_rows_without_a_draw_beside_those_of_a_trial_are_left_out_and_refused_above_one_in_twenty(make) -> None:
    tables = make()[1]

    def tail(rows: int) -> Tables:
        certain = np.where(np.arange(3000) < rows, 1.0, tables.exposure["propensity"])
        return tables.replaced(exposure=tables.exposure.assign(propensity=certain))

    kept, counted = refuse_faults(tail(120), campaign_from_tables(tables), Currency())
    rows = counted.sides["customer"]
    assert (rows.offers, rows.not_drawn, rows.no_outcome, rows.learned) == (3000, 120, 0, 2880)
    assert counted.facts()["rows of customers"]["dropped, the level was not drawn"] == 120
    # Their offers are requests all the same; nobody learns from them or judges by them.
    pd.testing.assert_frame_equal(kept.exposure, tail(120).exposure)
    learned = labeled(tables, "customer").iloc[120:].reset_index(drop=True)
    pd.testing.assert_frame_equal(labeled(kept, "customer"), learned)
    assert dropped(kept).sides["customer"] == rows
    assert refuse_faults(tables, campaign_from_tables(tables), Currency())[0] is tables
    with pytest.raises(InvalidTable, match=r"is 1 in 180 of 3,000 offers of customers \(6\.0%\), and below 1") as error:
        refuse(tail(180))
    assert "leave them out, in a mapping with `where`" in str(error.value)


@pytest.mark.parametrize(("name", "options"), [("promotion", {"bias": 1.0, "rows": 4000}), ("thornton", {})])
def test_propensities_that_differ_between_accounts_are_accepted(name: str, options: dict[str, float]) -> None:
    if name == "thornton":
        pytest.importorskip("causaldata")
    refuse(load(name, **options).tables)


def test_the_first_step_of_a_run_refuses_them_before_it_writes(make, tmp_path: Path) -> None:
    tables = make()[1]
    wrong = tables.replaced(exposure=tables.exposure.assign(propensity=0.4))
    write_tables(wrong, tmp_path / "own")
    job = PrepareJob(tables=tmp_path / "tables", dataset="tables", data=str(tmp_path / "own"))
    with pytest.raises(InvalidTable, match=r"add up to 1\.6"):
        prepare(job)
    assert not (tmp_path / "tables").exists()


def test_an_offer_without_an_amount_is_named(make) -> None:
    trial, tables = make("email")
    tables = tables.replaced(offer=tables.offer.assign(face_value=None, cost=[0, 1, 1]))
    wrong = np.array([0.1, 0.8, 0.1])[trial.level]
    with pytest.raises(InvalidTable, match=r"o10 was planned for 80\.0% of the offers"):
        refuse(tables.replaced(exposure=tables.exposure.assign(propensity=wrong)))
