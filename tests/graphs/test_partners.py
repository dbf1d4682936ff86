import pandas as pd

from shadowprice.graphs.build import build_snapshot
from shadowprice.graphs.partners import main_partner
from shadowprice.graphs.snapshot import GraphSnapshot

AT = pd.Timestamp("2026-01-02", tz="UTC")


def graph(payments: list[tuple[str, str, float]]) -> GraphSnapshot:
    nodes = pd.DataFrame(
        {"account_id": ["a", "b", "c", "m", "n"], "side": ["customer"] * 3 + ["merchant"] * 2, "x_trait": 1.0}
    )
    edges = pd.DataFrame(payments, columns=["src", "dst", "weight"]).assign(ts=AT)
    return build_snapshot(nodes, edges, AT)


def test_the_main_partner_has_the_largest_sum_of_payments_and_not_the_largest_single_one() -> None:
    snapshot = graph([("a", "m", 5.0), ("a", "n", 3.0), ("a", "n", 3.0), ("b", "m", 1.0), ("b", "n", 1.0)])
    found = main_partner(snapshot, ["a", "b", "c", "unknown"], "customer")
    assert [str(snapshot.account_id[node]) if node >= 0 else None for node in found] == ["n", "m", None, None]
    back = main_partner(snapshot, ["m", "n"], "merchant")
    assert snapshot.account_id[back].tolist() == ["a", "a"]


def test_a_graph_without_ties_gives_nobody_a_partner() -> None:
    assert main_partner(graph([]), ["a", "m"], "customer").tolist() == [-1, -1]
