import gc
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from feature_repo import store as store_module
from feature_repo.columns import FeatureColumns, describe
from feature_repo.names import REDIS_VARIABLE
from feature_repo.offline import training_frame, write_profiles
from feature_repo.store import configured_online, create, open_store, store_columns
from shadowprice.errors import InvalidInput, Unavailable


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()}


def test_creating_twice_changes_no_file(columns: FeatureColumns, tmp_path: Path) -> None:
    create(tmp_path, columns)
    gc.collect()  # a store that is collected closes its file
    before = contents(tmp_path)
    assert set(before) >= {"feature_store.yaml", "feature_definitions.py", "features.json", "registry.db", "online.db"}
    create(tmp_path, columns)
    gc.collect()
    assert contents(tmp_path) == before


def test_an_interrupted_creation_is_not_opened_and_is_finished_by_the_next(
    columns: FeatureColumns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def out_of_space(*_: Any) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(store_module, "build", out_of_space)
        with pytest.raises(Unavailable, match="no space left"):
            create(tmp_path, columns)
    with pytest.raises(Unavailable, match="`shadowprice job featurize` makes it"):
        open_store(tmp_path)
    assert create(tmp_path, columns).get_feature_view("customer_profile").features
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_an_interrupted_change_leaves_the_registry_as_it_was(
    columns: FeatureColumns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(tmp_path, columns)
    before = (tmp_path / "registry.db").read_bytes()

    def killed(source: Any, target: Any) -> None:
        if Path(target).name == "registry.db":
            raise OSError("killed")
        os.rename(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(store_module.os, "replace", killed)
        with pytest.raises(Unavailable):
            create(tmp_path, columns.with_model("v2"))
    assert (tmp_path / "registry.db").read_bytes() == before
    create(tmp_path, columns.with_model("v2")).get_feature_service("decision_customer_v2")


def test_a_changed_column_reaches_the_registry(columns: FeatureColumns, tmp_path: Path) -> None:
    create(tmp_path, columns)
    changed = replace(columns, profile={**columns.profile, "customer": ("x_new",)})
    names = {feature.name for feature in create(tmp_path, changed).get_feature_view("customer_profile").features}
    assert names == {"customer_x_new", "customer_snapshot_at"}


def test_models_registered_before_stay_registered(columns: FeatureColumns, tmp_path: Path) -> None:
    create(tmp_path, columns)
    store = create(tmp_path, replace(columns, model_versions=("v2",)))
    assert store_columns(store).model_versions == ("v1", "v2")
    assert {"decision_customer_v1", "decision_merchant_v2"} <= {item.name for item in store.list_feature_services()}


def test_a_folder_that_was_moved_is_registered_anew(
    account: pd.DataFrame, columns: FeatureColumns, tmp_path: Path
) -> None:
    write_profiles(create(tmp_path / "old", columns), account)
    (tmp_path / "old").rename(tmp_path / "new")
    exposures = pd.DataFrame({"account_id": ["a0"], "decided_at": account["snapshot_ts"].iloc[[0]]})
    with pytest.raises(Unavailable, match="run `shadowprice job featurize` again"):
        training_frame(open_store(tmp_path / "new"), exposures, "customer")
    frame = training_frame(create(tmp_path / "new", columns), exposures, "customer")
    assert frame["x_spend"].tolist() == [account["x_spend"].iloc[0]]


def test_the_address_of_redis_comes_from_the_environment_and_is_in_no_file(
    columns: FeatureColumns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(REDIS_VARIABLE, raising=False)
    assert configured_online() == "sqlite"
    monkeypatch.setenv(REDIS_VARIABLE, "cache.internal:6379,db=3,password=hunter2")
    assert configured_online() == "redis"
    store = create(tmp_path, columns, online="redis")
    assert store.config.online_store.connection_string.endswith("cache.internal:6379,db=3,password=hunter2")
    assert not [path.name for path in tmp_path.iterdir() if b"hunter2" in path.read_bytes()]
    monkeypatch.delenv(REDIS_VARIABLE)
    with pytest.raises(Unavailable, match=f"environment variable {REDIS_VARIABLE} is not set"):
        open_store(tmp_path)


@pytest.mark.parametrize(("option", "value"), [("online", "memcached"), ("project", "my project")])
def test_wrong_options_are_refused_by_name(columns: FeatureColumns, tmp_path: Path, option: str, value: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        create(tmp_path, columns, **{option: value})  # type: ignore[arg-type]
    assert caught.value.field == option


def test_a_folder_that_cannot_be_made_is_unavailable(columns: FeatureColumns, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Unavailable, match="cannot be created"):
        create(tmp_path / "file" / "features", columns)


FEAST = """
import sys
from feast.cli.cli import cli
for words in (["apply"], ["feature-views", "list"]):
    print(words, flush=True)
    cli(["-c", sys.argv[1], *words], standalone_mode=False)
"""
"""Two calls of Feast's command, which takes seconds to load, in one process."""


def test_feast_itself_applies_and_lists_the_repository(account: pd.DataFrame, tmp_path: Path) -> None:
    columns = describe(account, model_versions=["v1"])
    create(tmp_path, columns)
    (tmp_path / "registry.db").unlink()
    done = subprocess.run(
        [sys.executable, "-c", FEAST, str(tmp_path)], capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    _, listed = done.stdout.split("['feature-views', 'list']")
    for side in ("customer", "merchant"):
        for kind in ("profile", "account", "embedding"):
            assert f"{side}_{kind}" in listed
    assert "campaign_price" in listed
    assert {item.name for item in open_store(tmp_path).list_feature_services()} == {
        *(f"training_{side}" for side in ("customer", "merchant")),
        *(f"decision_{side}_v1" for side in ("customer", "merchant")),
    }
