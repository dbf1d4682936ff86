"""What the chart sets is what the services read: their own settings, parsed from the rendered environment."""

import base64
import json
import math
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from helm_python import HelmError
from rendering import CHART, merged, pods, render, rendered, values_of

from operations.__main__ import main
from operations.common.workspace import FIELDS, read_campaign
from serving.http.tokens import ROLES, Tokens
from serving.ledger.__main__ import LedgerSettings
from serving.ledger.durability import ONE_IF_ANY
from serving.predictor.config import Config
from serving.resolve import ResolveSettings
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.errors import InvalidInput, Unavailable

MINIMAL = values_of(CHART / "ci" / "minimal-values.yaml")
PRODUCTION = values_of(CHART / "ci" / "production-values.yaml")
REDIS = "the key of a secret"


def pod(values: dict[str, Any], kind: str) -> dict[str, Any]:
    """The spec of the pod of an object of a kind; where there are several objects, all have the same."""
    found, *others = [pod for entry in render(values) if entry["kind"] == kind for pod in pods(entry)]
    assert all(other == found for other in others)
    return found["spec"]


def environment(spec: dict[str, Any]) -> dict[str, str]:
    """Variables of a pod's only container, as its process would see them."""
    [container] = spec["containers"]
    return {entry["name"]: entry.get("value", REDIS) for entry in container.get("env", [])}


def ledger(values: dict[str, Any]) -> LedgerSettings:
    return LedgerSettings.parse([], environment(pod(values, "Deployment")))


def mounted(spec: dict[str, Any], path: Path | None) -> str:
    """The claim or secret, and its key, that a file of a pod comes from."""
    [container] = spec["containers"]
    [mount] = [m for m in container["volumeMounts"] if path is not None and path.is_relative_to(m["mountPath"])]
    [volume] = [v for v in spec["volumes"] if v["name"] == mount["name"]]
    if claim := volume.get("persistentVolumeClaim"):
        return claim["claimName"]
    [item] = [i for i in volume["secret"]["items"] if Path(mount["mountPath"]) / i["path"] == path]
    return f"{volume['secret']['secretName']}/{item['key']}"


def test_by_default_the_books_are_a_file_the_log_is_kept_and_callers_need_tokens_of_their_own() -> None:
    settings, spec = ledger(MINIMAL), pod(MINIMAL, "Deployment")
    assert not settings.redis
    assert settings.redis_password_file is None
    assert mounted(spec, settings.token_file) == "spring-tokens/all"
    assert settings.calls_per_second > 0
    assert mounted(spec, settings.db) == mounted(spec, settings.log_dir) == "spring-ledger"
    predictor = pod(MINIMAL, "InferenceService")
    config = Config.parse([], environment(predictor))
    assert (config.grpc_port, config.feature_reader, config.feature_max_age_seconds) == (0, "auto", math.inf)
    assert mounted(predictor, config.token_file) == "spring-tokens/predictor"
    assert config.calls_per_second > 0


def test_a_ledger_with_redis_has_address_and_password_from_its_secret() -> None:
    settings, spec = ledger(PRODUCTION), pod(PRODUCTION, "Deployment")
    assert settings.redis == REDIS
    [address] = [e for e in spec["containers"][0]["env"] if e["name"] == "SHADOWPRICE_LEDGER_REDIS"]
    assert address["valueFrom"]["secretKeyRef"] == {"name": "ledger-redis", "key": "url"}
    assert mounted(spec, settings.redis_password_file) == "ledger-redis/password"
    assert mounted(spec, settings.token_file) == "callers/bearer"
    assert mounted(spec, settings.log_dir) == mounted(spec, settings.witness) == "ledger-summer"
    assert (settings.redis_durability, settings.redis_replicas) == ("checked", ONE_IF_ANY)
    managed = merged(merged(PRODUCTION, "ledger.redis.durability", "declared"), "ledger.redis.replicas", 2)
    settings = ledger(managed)
    assert (settings.redis_durability, settings.redis_replicas) == ("declared", 2)
    assert settings.drain_seconds == 0
    without = merged(PRODUCTION, "ledger.redis.passwordKey", "")
    assert ledger(without).redis_password_file is None
    assert "redis" not in {volume["name"] for volume in pod(without, "Deployment")["volumes"]}


def test_a_ledger_that_keeps_nothing_on_its_claim_has_none() -> None:
    made = merged(merged(PRODUCTION, "ledger.storage", {}), "ledger.decisionLog", {"enabled": False})
    assert ledger(made).log_dir is ledger(made).witness is None
    assert not [entry for entry in render(made) if entry["kind"] == "PersistentVolumeClaim"]
    assert "ledger" not in {volume["name"] for volume in pod(made, "Deployment")["volumes"]}
    # With either, it has one.
    for path, value in (("ledger.store", "sqlite"), ("ledger.decisionLog.enabled", True)):
        claims = [
            e["metadata"]["name"] for e in render(merged(made, path, value)) if e["kind"] == "PersistentVolumeClaim"
        ]
        assert claims == ["summer-2027-ledger"]


def test_the_predictor_takes_reader_port_and_both_tokens() -> None:
    spec = pod(PRODUCTION, "InferenceService")
    given = environment(spec)
    config = Config.parse([], given)
    assert (config.grpc_port, config.feature_reader, config.feature_max_age_seconds) == (9000, "packed", 86_400)
    assert mounted(spec, config.token_file) == "callers/bearer"
    assert mounted(spec, Path(given["SHADOWPRICE_LEDGER_TOKEN_FILE"])) == "callers/bearer"
    assert 9000 in {port["containerPort"] for port in spec["containers"][0]["ports"]}


@pytest.mark.parametrize(
    ("kind", "variables"),
    [
        ("CronJob", {"SHADOWPRICE_LEDGER_TOKEN_FILE"}),
        ("Pod", {"SHADOWPRICE_TOKEN_FILE", "SHADOWPRICE_LEDGER_TOKEN_FILE"}),
    ],
)
def test_who_calls_the_services_shows_the_token(kind: str, variables: set[str]) -> None:
    spec = pod(PRODUCTION, kind)
    given = environment(spec)
    assert {name for name in given if name.endswith("TOKEN_FILE")} == variables
    assert {mounted(spec, Path(given[name])) for name in variables} == {"callers/bearer"}
    made = pod(MINIMAL, kind)
    key = {"CronJob": "read", "Pod": "check"}[kind]
    assert {mounted(made, Path(environment(made)[name])) for name in variables} == {f"spring-tokens/{key}"}


def test_the_tokens_that_are_made_are_what_the_services_read(tmp_path: Path) -> None:
    [secret] = [entry for entry in render(MINIMAL) if entry["kind"] == "Secret"]
    made = {}
    for key, value in secret["data"].items():
        (tmp_path / key).write_bytes(base64.b64decode(value))
        made[key] = Tokens(tmp_path / key)
    assert len({made["all"].secret(role) for role in ROLES}) == len(ROLES)
    for role in ROLES:
        assert made[role].secret(role) == made["all"].secret(role)
        caller = made["all"].caller(f"Bearer {made[role].secret(role)}")
        assert caller is not None
        assert caller.roles == {role}
    for key, held in {
        "check": ("decide", "report"),
        "predictor": ("decide", "authorize"),
        "mover": ("read", "move"),
    }.items():
        for role in held:
            assert made[key].secret(role) == made[role].secret(role)
        with pytest.raises(Unavailable):
            made[key].secret("administer")
    assert not [entry for entry in render(PRODUCTION) if entry["kind"] == "Secret"]


def test_the_ledger_is_let_out_to_its_redis_and_to_nobody_else() -> None:
    def egress(values: dict[str, Any]) -> set[tuple[str, int]]:
        [policy] = [
            entry
            for entry in render(values)
            if entry["kind"] == "NetworkPolicy" and entry["metadata"]["name"].endswith("-ledger")
        ]
        assert "Egress" in policy["spec"]["policyTypes"]
        return {(port["protocol"], port["port"]) for rule in policy["spec"].get("egress", []) for port in rule["ports"]}

    assert egress(MINIMAL) == set()
    assert egress(PRODUCTION) == {("TCP", 6380), ("UDP", 53), ("TCP", 53)}


def test_callers_of_grpc_are_let_in() -> None:
    def ingress(values: dict[str, Any]) -> set[int]:
        [policy] = [
            entry
            for entry in render(values)
            if entry["kind"] == "NetworkPolicy" and entry["metadata"]["name"].endswith("-predictor")
        ]
        return {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]}

    assert ingress(MINIMAL) == {8080, 8090}
    assert ingress(PRODUCTION) == {8080, 8090, 9000}


def test_the_pacer_for_an_alarm_reaches_the_hourly_solve() -> None:
    assert "SHADOWPRICE_ON_ALARM" not in environment(pod(MINIMAL, "CronJob"))
    assert environment(pod(merged(MINIMAL, "resolve.onAlarm", "pi"), "CronJob"))["SHADOWPRICE_ON_ALARM"] == "pi"


def test_exploration_and_arms_of_the_values_reach_every_process_that_reads_the_campaign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arms = {"arms": [{"name": "holdout", "kind": "holdout", "share": 500}], "salt": "spring-2026"}
    weights = {"customer": {"customer-0": 0.5, "customer-50": 1.5}}
    fields = {"exploration": 0.05, "alarm_exploration": 0.2, "experiment": arms, "exploration_weights": weights}
    given = MINIMAL | {"campaignFields": fields}
    told = {environment(pod(given, kind))[FIELDS] for kind in ("CronJob", "Deployment", "InferenceService")}
    assert FIELDS not in environment(pod(MINIMAL, "Deployment"))
    (text,) = told
    own = Campaign(
        name="spring",
        sides={"customer": Terms(levels=(0, 50))},
        budget=Budget(limit=100),
        starts_at=datetime(2026, 3, 1, tzinfo=UTC),
    )
    (tmp_path / "campaign.json").write_text(json.dumps(own.to_dict()))
    monkeypatch.setenv(FIELDS, text)
    found = read_campaign(tmp_path)
    assert (found.exploration, found.in_doubt().exploration) == (0.05, 0.2)
    assert found.draw_weights("customer").tolist() == [0.5, 1.5]
    assert found.experiment is not None
    assert found.experiment.shares == {"holdout": 500, "unassigned": 9500}
    # A pipeline hands numbers on as decimals.
    arms["arms"][0]["share"] = 500.0  # type: ignore[index]
    assert own.with_fields({"experiment": arms}).experiment == found.experiment
    monkeypatch.setenv(FIELDS, json.dumps({"spring": {"budget": 5}}))
    with pytest.raises(InvalidInput, match="must be of exploration"):
        read_campaign(tmp_path)


def test_the_watch_reads_the_ledgers_log_and_takes_its_settings_as_the_job_does(monkeypatch) -> None:
    values = merged(merged(MINIMAL, "resolve.by", "none"), "watch", {"enabled": True, "matureHours": 6, "rate": 0.01})
    spec = pod(values, "CronJob")
    [container] = spec["containers"]
    assert container["args"][:4] == ["python", "-m", "operations", "watch"]
    jobs: list[Any] = []
    monkeypatch.setattr("operations.common.job_command.run_here", jobs.append)
    assert main(container["args"][3:]) == 0
    [job] = jobs
    assert (job.mature_hours, job.rate, job.tolerance) == (6, 0.01, 0.2)
    assert mounted(spec, job.log) == "spring-ledger"
    assert mounted(spec, job.page) == mounted(spec, job.workspace / "watch.json") == "spring-workspace"


def test_what_a_cluster_adds_reaches_its_objects() -> None:
    """Further variables, annotations of accounts, labels for a queue, and relabelings."""
    objects = render(PRODUCTION)
    assert environment(pod(PRODUCTION, "InferenceService"))["HTTPS_PROXY"] == "http://proxy:3128"
    for kind in ("Deployment", "CronJob", "RayCluster"):
        found = [pod["spec"] for entry in objects if entry["kind"] == kind for pod in pods(entry)]
        assert all(environment(spec)["TZ"] == "UTC" for spec in found)
    accounts = {
        entry["metadata"]["name"]: entry["metadata"].get("annotations", {})
        for entry in objects
        if entry["kind"] == "ServiceAccount"
    }
    assert [name for name, given in accounts.items() if given] == ["summer-2027-training"]
    queued = [entry["metadata"]["labels"] for entry in objects if entry["kind"] in ("RayJob", "RayCluster")]
    assert [labels["kueue.x-k8s.io/queue-name"] for labels in queued] == ["growth", "growth"]
    [monitor] = [entry["spec"] for entry in objects if entry["kind"] == "PodMonitor"]
    for endpoint in monitor["podMetricsEndpoints"]:
        assert [each["targetLabel"] for each in endpoint["relabelings"]] == ["node"]
        assert [each["action"] for each in endpoint["metricRelabelings"]] == ["labeldrop"]


LARGE = {
    "campaign": "spring",
    "features": {"online": {"redis": {"existingSecret": "redis"}}},
    "checks": {"crds": False, "objects": False},
    "training": {
        "rayJob": {"enabled": True, "seed": 20260501, "epochs": 1_000_000, "ttlSecondsAfterFinished": 2_592_000}
    },
    "predictor": {"amountPerHour": 5_000_000, "featureMaxAgeSeconds": 2_592_000, "callsPerSecond": 1_000_000},
    "ledger": {"callsPerSecond": 1_000_000},
    "resolve": {"activeDeadlineSeconds": 1_000_000, "startingDeadlineSeconds": 1_000_000},
    "watch": {"enabled": True, "activeDeadlineSeconds": 1_000_000, "matureHours": 1_000_000},
    "campaignFields": {"exploration": 0.05},
}


def test_large_whole_numbers_are_rendered_as_such() -> None:
    """Helm holds the numbers of a values file as floats."""
    texts = rendered(LARGE)
    lines = [line for text in texts.values() for line in text.splitlines()]
    assert [line for line in lines if re.search(r"\b\d(\.\d+)?e\+\d+", line)] == []
    for wanted in ("--set=seed=20260501", "--mature-hours=1000000", "ttlSecondsAfterFinished: 2592000", "0.05"):
        assert any(wanted in line for line in lines), wanted
    for path in (CHART / "templates").rglob("*.yaml"):
        assert path.read_text().startswith('{{- include "shadowprice.wholeNumbers" .Values -}}\n'), path


def test_a_sealed_log_is_read_where_the_ledger_writes_it() -> None:
    sealed = merged(MINIMAL, "resolve.sealLog", True)
    spec, job = pod(sealed, "Deployment"), pod(sealed, "CronJob")
    log = ResolveSettings.parse([], environment(job)).log_dir
    assert log == ledger(sealed).log_dir
    assert mounted(job, log) == mounted(spec, log)
    assert job["affinity"]
    assert ResolveSettings.parse([], environment(pod(MINIMAL, "CronJob"))).log_dir is None
    with pytest.raises(HelmError, match=r"resolve\.sealLog: needs ledger\.decisionLog\.enabled"):
        render(merged(sealed, "ledger.decisionLog.enabled", False))
    with pytest.raises(HelmError, match=r"resolve\.sealLog: needs resolve\.by cronjob"):
        render(merged(sealed, "resolve.by", "kfp"))
