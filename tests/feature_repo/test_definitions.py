from pathlib import Path

import pandas as pd

from feature_repo.columns import FeatureColumns, describe
from feature_repo.definitions import build
from feature_repo.sdk import feast
from shadowprice.campaign import SIDES


def views(columns: FeatureColumns, folder: Path) -> dict[str, feast.FeatureView]:
    return {item.name: item for item in build(columns, folder) if isinstance(item, feast.FeatureView)}


def test_feature_names_are_unique_across_the_views(account: pd.DataFrame, tmp_path: Path) -> None:
    interactions = pd.DataFrame({"side": ["customer", "merchant"], "h_events": [1.0, 2.0]})
    found = views(describe(account, interactions), tmp_path)
    assert set(found) == {
        *(f"{side}_{kind}" for side in SIDES for kind in ("profile", "interactions", "account", "embedding")),
        "campaign_price",
    }
    names = [feature.name for view in found.values() for feature in view.features]
    assert len(set(names)) == len(names)
    assert "customer_x_spend" in names
    assert "merchant_x_spend" not in names


def test_a_side_without_accounts_has_no_views(tmp_path: Path) -> None:
    found = views(FeatureColumns(profile={"customer": ("x_a",)}), tmp_path)
    assert set(found) == {"customer_profile", "customer_account", "customer_embedding", "campaign_price"}


def test_every_model_version_has_its_own_decision_service(tmp_path: Path) -> None:
    columns = FeatureColumns(profile={"customer": ("x_a",), "merchant": ()}, model_versions=("v1", "v2"))
    services = {item.name: item for item in build(columns, tmp_path) if isinstance(item, feast.FeatureService)}
    assert set(services) == {
        *(f"training_{side}" for side in columns.sides),
        *(f"decision_{side}_{version}" for side in columns.sides for version in ("v1", "v2")),
    }
    assert services["decision_customer_v1"].tags == {"model_version": "v1"}
    (projection,) = services["decision_customer_v1"].feature_view_projections
    assert projection.name == "customer_embedding"


def test_snapshots_never_expire_and_what_decisions_read_is_online(columns: FeatureColumns, tmp_path: Path) -> None:
    found = views(columns, tmp_path)
    assert all(not view.ttl for view in found.values())
    online = {*(f"{side}_{kind}" for side in SIDES for kind in ("account", "embedding")), "campaign_price"}
    assert {name for name, view in found.items() if view.online} == online
