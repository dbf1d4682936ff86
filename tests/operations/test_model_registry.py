"""A registered model is published in a model registry once, and its registration never depends on that."""

import json
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from registry_server import Registry, registry

from operations import __main__ as command
from operations.common.journal import notes
from operations.common.model_registry import lineage_of
from operations.common.workspace import CAMPAIGN, MODEL, PUBLISHED
from operations.register import RegisterJob, run
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.errors import Conflict, InvalidInput
from shadowprice.learning.bundle import EMBEDDINGS
from shadowprice.responses.integrity import file_digests
from shadowprice.responses.layers.heads import StoredHead, save_heads

FACTS = {
    "recipe": "hazard",
    "trained_at": "2026-03-02T00:00:00+00:00",
    "data_sha256": "d1f2",
    "metrics": {"validation_loss": 0.25, "unknown": float("nan")},
}
EVALUATION = {
    "gate": {"passed": False, "checks": [], "override": {"reason": "a pilot", "by": "Ada"}},
    "sides": [{"side": "customer", "metrics": {"hazard": {"auc": {"value": 0.7, "low": 0.6, "high": 0.8}}}}],
}


@pytest.fixture
def server() -> Iterator[Registry]:
    with registry() as state:
        yield state


@pytest.fixture
def workspace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A workspace whose feature store is left alone: tests/feature_repo/test_register.py has one."""
    for name in ("read_columns", "create", "publish_profiles", "publish_embeddings"):
        monkeypatch.setattr(f"operations.register.{name}", Mock())
    campaign = Campaign(
        name="spring",
        sides={"customer": Terms(levels=(0, 50))},
        budget=Budget(limit=100),
        starts_at=datetime(2024, 5, 1, tzinfo=UTC),
    )
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / CAMPAIGN).write_text(json.dumps(campaign.to_dict()))
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return bundle(tmp_path / "first", "m-1", 0.25)


def bundle(folder: Path, version: str, value: float) -> Path:
    save_heads({"customer": StoredHead(levels=np.array([0, 50]), default_embedding=np.full(2, value, "f4"))}, folder)
    (folder / "model.json").write_text(json.dumps(FACTS | {"model_version": version, "files": file_digests(folder)}))
    embeddings = {"account_id": ["a"], "side": "customer", "embedding": [np.full(2, value, np.float32)]}
    pd.DataFrame(embeddings).to_parquet(folder / EMBEDDINGS)
    return folder


def properties(entry: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value.get("double_value", value.get("string_value")) for name, value in entry["customProperties"].items()
    }


def test_a_version_has_its_metrics_its_lineage_and_its_artifact_and_a_repeat_creates_nothing(
    server: Registry, workspace: Path, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "evaluation").write_text(json.dumps(EVALUATION))
    job = RegisterJob(
        model=model,
        workspace=workspace,
        evaluation=tmp_path / "evaluation",
        registry_url=server.url,
        registry_service="growth/spring",
        pipeline_run="run-7",
    )
    assert run(job) == "m-1"
    (campaign,), (version,) = server.entries["registered_model"], server.entries["model_version"]
    (artifact,), (service,) = server.entries["model_artifact"], server.entries["inference_service"]
    assert (campaign["name"], version["name"], version["parent"]) == ("spring", "m-1", campaign["id"])
    told = properties(version)
    assert {
        name: told[name] for name in ("recipe", "trained_at", "data_sha256", "pipeline_run", "campaign", "gate")
    } == {
        **{name: FACTS[name] for name in ("recipe", "trained_at", "data_sha256")},
        "pipeline_run": "run-7",
        "campaign": "spring",
        "gate": "overridden by Ada: a pilot",
    }
    figures = {"validation_loss": 0.25, "customer_auc": 0.7, "customer_auc_low": 0.6, "customer_auc_high": 0.8}
    assert {name: value for name, value in told.items() if isinstance(value, float)} == figures
    assert json.loads(told["files"]) == file_digests(workspace / MODEL)
    assert (artifact["parent"], artifact["modelSourceId"]) == (version["id"], "run-7")
    assert artifact["uri"] == (workspace / MODEL).resolve().as_uri()
    assert (service["name"], service["modelVersionId"]) == ("spring", version["id"])
    labels = {
        "modelregistry.kubeflow.org/registered-model-id": campaign["id"],
        "modelregistry.kubeflow.org/model-version-id": version["id"],
        "modelregistry.kubeflow.org/inference-service-id": service["id"],
    }
    out = capsys.readouterr().out
    assert all(f"{name}={value}" in out for name, value in labels.items())
    assert notes(workspace / PUBLISHED)[-1]["labels"] == labels
    # The price that is solved for the version names the same run and data.
    lineage = {name: FACTS[name] for name in ("recipe", "trained_at", "data_sha256")} | {"pipeline_run": "run-7"}
    assert lineage_of(workspace, "m-1") == lineage
    assert lineage_of(workspace, "m-2") == {}
    before = json.dumps(server.entries)
    server.calls.clear()
    run(job)
    assert json.dumps(server.entries) == before
    assert {call.split()[0] for call in server.calls} == {"GET"}


def test_the_service_names_the_version_that_is_served(
    server: Registry, workspace: Path, model: Path, tmp_path: Path
) -> None:
    options = {"workspace": workspace, "registry_url": server.url, "registry_service": "growth/spring"}
    run(RegisterJob(model=model, **options))
    second = bundle(tmp_path / "second", "m-2", 0.5)
    ids = lambda: {entry["name"]: entry["id"] for entry in server.entries["model_version"]}  # noqa: E731
    (service,) = server.entries["inference_service"]
    run(RegisterJob(model=second, serve=False, **options))
    assert service["modelVersionId"] == ids()["m-1"]
    run(RegisterJob(model=second, **options))
    assert service["modelVersionId"] == ids()["m-2"]
    run(RegisterJob(model=model, **options))  # a roll-back
    assert service["modelVersionId"] == ids()["m-1"]
    assert len(server.entries["inference_service"]) == len(server.entries["serving_environment"]) == 1


@pytest.mark.parametrize("kind", ["registered_model", "model_version", "model_artifact"])
def test_an_entry_that_another_client_creates_meanwhile_is_taken(
    kind: str, server: Registry, workspace: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.race.add(kind)
    run(RegisterJob(model=model, workspace=workspace, registry_url=server.url))
    assert {name: len(entries) for name, entries in server.entries.items()} == dict.fromkeys(
        ("registered_model", "model_version", "model_artifact"), 1
    )
    assert "warning" not in capsys.readouterr().err


def test_the_server_of_these_tests_refuses_what_the_schemas_do(server: Registry) -> None:
    path = "/api/model_registry/v1alpha3/model_versions"
    for body in (
        {"name": "m"},
        {"name": "m", "registeredModelId": "x"},
        {"name": "m", "registeredModelId": "1", "a": 1},
    ):
        assert server.answer("POST", path, {}, body)[0] == 400
    number = {"name": "m", "registeredModelId": "1", "customProperties": {"auc": {"double_value": 0.5}}}
    assert server.answer("POST", path, {}, number)[0] == 400


def test_entries_of_others_are_left_alone(
    server: Registry, workspace: Path, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answer("POST", "/api/model_registry/v1alpha3/registered_models", {}, {"name": "spring"})
    run(RegisterJob(model=model, workspace=workspace, registry_url=server.url))
    assert "a model 'spring' that is not of this campaign" in capsys.readouterr().err
    assert list(server.entries) == ["registered_model"]


def test_a_registry_that_is_down_or_refuses_costs_nothing_and_the_warning_repeats_it(
    server: Registry, workspace: Path, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = tmp_path / "token"
    token.write_text("wrong\n")
    server.token = "right"
    options = {"workspace": workspace, "registry_token_file": str(token)}

    def warned(url: str) -> str:
        assert run(RegisterJob(model=model, registry_url=url, **options)) == "m-1"
        assert (workspace / MODEL).resolve().name == "m-1"
        assert not notes(workspace / PUBLISHED)
        return capsys.readouterr().err

    assert "does not answer" in warned("http://127.0.0.1:9")
    refused = warned(server.url)
    assert "HTTP 401 Unauthorized; name a file with a bearer token by registry_token_file" in refused
    assert "wrong" not in refused
    assert not server.entries
    token.write_text("right\n")
    server.broken.add("model_artifact")
    half = warned(server.url)
    assert "HTTP 503 the database is away" in half
    server.broken.clear()
    # The command of the warning ends what was begun, whatever is served by then.
    run(RegisterJob(model=bundle(tmp_path / "second", "m-2", 0.5), workspace=workspace))
    repeat = shlex.split(half.splitlines()[-1].removeprefix("to publish it: "))
    assert repeat[:4] == ["python", "-m", "operations", "register"]
    assert command.main(repeat[3:]) == 0
    assert (workspace / MODEL).resolve().name == "m-2"
    assert [len(server.entries[kind]) for kind in ("registered_model", "model_version", "model_artifact")] == [1, 1, 1]
    assert notes(workspace / PUBLISHED)[-1]["model_version"] == "m-1"


def test_another_server_and_a_page_to_sign_in_are_no_registry(
    server: Registry, workspace: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(RegisterJob(model=model, workspace=workspace, registry_url=f"{server.url}/elsewhere"))
    assert "is this the address of a model registry?" in capsys.readouterr().err


def test_an_address_that_cannot_be_is_refused_before_anything_is_written(workspace: Path, model: Path) -> None:
    with pytest.raises(InvalidInput, match="registry_url"):
        run(RegisterJob(model=model, workspace=workspace, registry_url="model-registry:8080"))
    with pytest.raises(InvalidInput, match="registry_service"):
        run(RegisterJob(model=model, workspace=workspace, registry_service="spring"))
    assert not (workspace / "models").exists()


def test_without_an_address_nothing_is_called(server: Registry, workspace: Path, model: Path) -> None:
    run(RegisterJob(model=model, workspace=workspace))
    assert not server.calls
    with pytest.raises(Conflict):
        run(RegisterJob(model=bundle(model.parent / "other", "m-1", 0.5), workspace=workspace, registry_url=server.url))
    assert not server.calls
