"""Offers without an amount in a user's own files."""

import re
from pathlib import Path

import pandas as pd
import pytest
import yaml

import cli.main as command
from benchmarks.trials import draw
from shadowprice.currency import Currency
from shadowprice.datasets import load
from shadowprice.errors import InvalidInput, InvalidTable
from shadowprice.mapping import map_tables, read_mapping
from shadowprice.mapping.proposal.alternatives import alternatives, control
from shadowprice.mapping.proposal.profile import Cells
from shadowprice.tables import campaign_from_tables

ARMS = ("No E-Mail", "Mens E-Mail", "Womens E-Mail")


@pytest.fixture(scope="module")
def proposed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The mapping that ``init`` writes of an e-mail trial, as it is."""
    folder = tmp_path_factory.mktemp("email")
    files = draw("email", seed=3, accounts=600).write(folder)
    words = ["init", str(folder), "--trials", str(files["offers"]), "--customers", str(files["people"])]
    assert command.main(words) == 0
    return folder / "mapping.yaml"


def changed(mapping: Path, name: str, **exposure: object) -> Path:
    """Write a copy of a mapping beside it, with other columns of the exposures; None takes one out."""
    given = yaml.load(mapping.read_text(), Loader=yaml.BaseLoader)
    columns = given["tables"]["exposure"]["columns"] | exposure
    given["tables"]["exposure"]["columns"] = {name: each for name, each in columns.items() if each is not None}
    path = mapping.with_name(name)
    path.write_text(yaml.safe_dump(given))
    return path


def test_what_init_proposes_is_accepted_as_it_is(proposed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["check", str(proposed)]) == 0
    shown = capsys.readouterr().out
    assert (
        "No E-Mail 0 offers, Mens E-Mail 1 offer, Womens E-Mail 1 offer; they have no order, and the first is" in shown
    )
    dataset = load("mapping", data=str(proposed))
    campaign = campaign_from_tables(dataset.tables)
    terms = campaign.terms("customer")
    assert (terms.offers, terms.unit_costs, terms.ordered) == (ARMS, (0, 1, 1), False)
    trials = pd.read_csv(proposed.parent / "offers.csv")
    given = int((trials["segment"] != "No E-Mail").sum())
    assert campaign.budget.limit == -(-given // 7)
    assert terms.cost_basis == "on_grant"
    assert Currency.of(dataset.currency).one == "offer"
    assert (dataset.tables.offer["kind"] == "other").all()
    # Each line that is a guess says so.
    lines = proposed.read_text().splitlines()
    for name in ("currency", "budget_limit", "cost_basis_customer", "offer_id", "cost"):
        assert [line for line in lines if re.match(rf" *{name}:", line) and "CHECK" in line], name


def test_a_cost_counts_when_given_or_when_redeemed(proposed: Path) -> None:
    trials = pd.read_csv(proposed.parent / "offers.csv")
    paid = trials["segment"].map({"No E-Mail": 0, "Mens E-Mail": 1, "Womens E-Mail": 1})
    assert map_tables(read_mapping(proposed)).outcome["cost_paid"].tolist() == paid.tolist()
    path = changed(proposed, "response.yaml")
    path.write_text(path.read_text().replace("on_grant", "on_response"))
    found = map_tables(read_mapping(path)).outcome["cost_paid"]
    assert found.tolist() == (paid * trials["visit"]).tolist()


def test_costs_in_money_are_in_the_currency_of_the_files(proposed: Path) -> None:
    costs = {"No E-Mail": "0", "Mens E-Mail": "0.65", "Womens E-Mail": "0.02"}
    path = changed(proposed, "money.yaml", cost={"column": "segment", "values": costs})
    path.write_text(path.read_text().replace("currency: offers", "currency: EUR"))
    assert campaign_from_tables(map_tables(read_mapping(path))).terms("customer").unit_costs == (0, 65, 2)


def test_offers_of_one_amount_are_told_by_their_identifiers(proposed: Path) -> None:
    values = {"No E-Mail": "0", "Mens E-Mail": "5.00", "Womens E-Mail": "5.00"}
    path = changed(proposed, "amounts.yaml", cost=None, face_value={"column": "segment", "values": values})
    path.write_text(path.read_text().replace("currency: offers", "currency: EUR"))
    terms = campaign_from_tables(map_tables(read_mapping(path))).terms("customer")
    assert (terms.offers, terms.incentives, terms.ordered) == (ARMS, (0, 500, 500), False)
    without = changed(path, "without.yaml", offer_id=None)
    with pytest.raises(InvalidTable, match="map offer_id too"):
        map_tables(read_mapping(without))


def test_without_cost_and_value_the_message_names_both(proposed: Path) -> None:
    path = changed(proposed, "nothing.yaml", cost=None, cost_paid={"constant": "0"})
    with pytest.raises(InvalidInput, match="or offer_id and cost where they have no value in money"):
        map_tables(read_mapping(path))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (ARMS, "No E-Mail"),
        (("control", "A", "B"), "control"),
        (("Kein Brief", "Brief"), "Kein Brief"),
        (("A", "B"), ""),
        (("none", "control", "A"), ""),
        (("Nordic", "Notebook"), ""),
    ],
)
def test_the_control_is_the_one_offer_whose_name_says_that_it_is_none(names: tuple[str, ...], expected: str) -> None:
    cells = Cells(name="arm", kind="text", unique=False, full=True, values=dict.fromkeys(names, 5))
    assert control(cells) == expected


def test_a_text_that_may_be_anything_is_not_taken_for_the_offers() -> None:
    def text(name: str, values: int) -> Cells:
        return Cells(name=name, kind="text", unique=False, full=True, values={f"v{each}": 9 for each in range(values)})

    assert alternatives([text("town", 4), text("shop", 3)]) is None
    assert alternatives([text("answer", 2)]) is None
    only, named = text("town", 4), text("variant", 2)
    assert alternatives([only, text("answer", 2)]) is only
    assert alternatives([only, named]) is named


def test_a_control_that_nobody_named_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = draw("email", seed=3, accounts=200).write(tmp_path)
    trials = pd.read_csv(files["offers"])
    trials["segment"] = trials["segment"].map({"No E-Mail": "A", "Mens E-Mail": "B", "Womens E-Mail": "C"})
    trials.to_csv(files["offers"], index=False)
    words = ["init", str(tmp_path), "--trials", str(files["offers"]), "--customers", str(files["people"])]
    assert command.main(words) == 0
    assert "say which that is" in (tmp_path / "mapping.yaml").read_text()
    assert command.main(["check", str(tmp_path / "mapping.yaml")]) == 1
    assert "must be 0 for the control" in capsys.readouterr().err
