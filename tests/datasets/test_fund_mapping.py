"""A log of funds in files of a platform's own, against the tables that the files were written from."""

from pathlib import Path

import pandas as pd
import pytest

from benchmarks.companies.funds import write_company
from cli.check import main
from shadowprice.datasets import load
from shadowprice.datasets.folder import write_tables
from shadowprice.datasets.inputs import dataset_of, is_delivery
from shadowprice.datasets.registry import Dataset
from shadowprice.tables import campaign_from_tables

SAME = {"account_id", "offer_id", "propensity", "cost_paid", "redeemed", "clicked", "amount", "demand", "risk_level"}


@pytest.fixture(scope="module")
def generated() -> Dataset:
    return load("funds", seed=0, users=100, merchants=10, funds=4, deliveries=2)


@pytest.fixture(scope="module")
def mapping(generated: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_company(tmp_path_factory.mktemp("funds"), generated.tables)


def test_the_files_of_a_platform_are_the_tables_of_its_delivery(generated: Dataset, mapping: Path) -> None:
    """Nothing in the files tells what a place cost: nothing was paid for one."""
    found, wanted = load("mapping", str(mapping)).tables, generated.tables
    for table, key in (("exposure", "request_id"), ("outcome", "request_id"), ("offer", "offer_id")):
        ours, theirs = (getattr(tables, table).set_index(key).sort_index() for tables in (found, wanted))
        for name in SAME & {*theirs}:
            assert ours[name].tolist() == theirs[name].tolist(), name
    assert (found.outcome["cost_paid"] == 0).all()
    segments = campaign_from_tables(found).segments
    assert [entry.demand for entry in segments] == wanted.offer.sort_values("order_index")["demand"].tolist()


def test_a_delivery_is_told_from_other_logs(generated: Dataset, mapping: Path, tmp_path: Path, examples: Path) -> None:
    folder = write_tables(generated.tables, tmp_path / "tables")
    # A table that the project writes has the column in any case.
    other = generated.tables.replaced(offer=generated.tables.offer.assign(demand=pd.NA))
    without = write_tables(other, tmp_path / "other")
    assert [is_delivery(dataset_of(path), str(path)) for path in (mapping, folder)] == [True, True]
    others = (without, examples, examples.with_name("mapping") / "mapping.yaml")
    assert [is_delivery(dataset_of(path), str(path)) for path in others] == [False] * 3


def test_the_check_names_the_segments_with_their_sizes(
    generated: Dataset, mapping: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(mapping)]) == 0
    sizes = generated.tables.offer.sort_values("order_index")["demand"]
    told = ", ".join(f"fund-{number} {size}" for number, size in enumerate(sizes))
    assert f"segments of customers: {told} accounts" in " ".join(capsys.readouterr().out.split())
