"""The chart renders alike with both generations of Helm, and the API server would take every object."""

import copy
import re
from pathlib import Path

import pytest
from helm_python import HelmError, lint
from rendering import (
    CASES,
    CHART,
    NAMESPACE,
    faults,
    merged,
    parse,
    pods,
    render,
    selects,
    template,
    values_of,
    without_tokens,
)

from shadowprice.campaign import Campaign
from shadowprice.pacing.pacers import make_pacer, scheduled_slot

MINIMAL = CHART / "ci" / "minimal-values.yaml"
PRODUCTION = CHART / "ci" / "production-values.yaml"

each_case = pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)


@each_case
def test_lint_finds_nothing(case: Path) -> None:
    report = lint(CHART, values_of(case), strict=True, namespace=NAMESPACE)
    assert report["errors"] == []
    assert [message for message in report["messages"] if message["severity"] >= 2] == []


def test_both_generations_of_helm_render_equal_objects(helm: str) -> None:
    for case in CASES:
        done = template(helm, case)
        assert done.returncode == 0, done.stderr
        assert without_tokens(parse(done.stdout)) == without_tokens(render(values_of(case))), case.stem


@each_case
def test_the_api_server_would_take_every_object(case: Path, crds: Path) -> None:
    found = {f"{entry['kind']}/{entry['metadata']['name']}": faults(entry, crds) for entry in render(values_of(case))}
    assert {name: problems for name, problems in found.items() if problems} == {}


@pytest.mark.parametrize(
    ("kind", "break_it"),
    [
        ("InferenceService", lambda spec: spec["predictor"].update(minReplica=2)),
        ("InferenceService", lambda spec: spec["predictor"].update(minReplicas="two")),
        ("RayJob", lambda spec: spec.update(shutdownAfterFinish=True)),
        ("RayJob", lambda spec: spec["rayClusterSpec"].pop("headGroupSpec")),
        # Rules in CEL, which the schema proper does not hold.
        ("RayJob", lambda spec: spec.update(managedBy="somebody")),
        ("RayJob", lambda spec: spec.update(deletionStrategy={"onSuccess": {"policy": "DeleteCluster"}})),
        ("RayCluster", lambda spec: spec.update(managedBy="somebody")),
        # What KubeRay alone refuses.
        ("RayJob", lambda spec: spec.update(shutdownAfterJobFinishes=False)),
        ("RayJob", lambda spec: spec.update(activeDeadlineSeconds=0)),
        ("RayCluster", lambda spec: spec["workerGroupSpecs"][0].update(replicas=99)),
        ("PodMonitor", lambda spec: spec.pop("selector")),
        ("PrometheusRule", lambda spec: spec["groups"][0].update(rules="none")),
        ("Deployment", lambda spec: spec.update(replica=1)),
        ("CronJob", lambda spec: spec.pop("schedule")),
        ("NetworkPolicy", lambda spec: spec.update(podselector={})),
    ],
)
def test_a_broken_object_is_refused(kind: str, break_it, crds: Path) -> None:
    entry = copy.deepcopy(next(o for o in render(values_of(PRODUCTION)) if o["kind"] == kind))
    assert faults(entry, crds) == []
    break_it(entry["spec"])
    assert faults(entry, crds) != []


@each_case
def test_no_container_may_use_less_than_it_asks_for_or_runs_as_root_or_from_latest(case: Path) -> None:
    found = [pod for entry in render(values_of(case)) for pod in pods(entry)]
    assert len(found) >= 3
    for pod in found:
        spec = pod["spec"]
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        containers = [*spec.get("initContainers", []), *spec["containers"]]
        for container in containers:
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"] is True
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"] == {"drop": ["ALL"]}
            name, _, tag = container["image"].rpartition(":")
            assert name
            assert tag not in ("", "latest")
            for resource, limit in container["resources"]["limits"].items():
                assert amount(container["resources"]["requests"][resource]) <= amount(limit)
            # A root that cannot be written needs a place for temporary files.
            assert {mount["mountPath"] for mount in container["volumeMounts"]} >= {"/tmp"}
        volumes = {volume["name"] for volume in spec["volumes"]}
        assert {mount["name"] for c in containers for mount in c["volumeMounts"]} == volumes


@each_case
def test_selectors_ports_accounts_and_claims_meet(case: Path) -> None:
    objects = render(values_of(case))
    found = [pod for entry in objects for pod in pods(entry)]
    made = {(entry["kind"], entry["metadata"]["name"]) for entry in objects}
    given = values_of(case)
    foreign = {
        given.get("workspace", {}).get("existingClaim"),
        given.get("ledger", {}).get("storage", {}).get("existingClaim"),
    }
    for pod in found:
        account = pod["spec"].get("serviceAccountName")
        assert account is None or ("ServiceAccount", account) in made
        for volume in pod["spec"]["volumes"]:
            claim = volume.get("persistentVolumeClaim", {}).get("claimName")
            assert claim is None or claim in foreign or ("PersistentVolumeClaim", claim) in made

    def chosen(selector: dict[str, str]) -> list[dict]:
        return [pod for pod in found if selector.items() <= pod["metadata"].get("labels", {}).items()]

    for entry in objects:
        if entry["kind"] == "Service":
            ports = {
                port["name"]: port["containerPort"]
                for pod in chosen(entry["spec"]["selector"])
                for container in pod["spec"]["containers"]
                for port in container.get("ports", [])
            }
            assert all(port["targetPort"] in ports for port in entry["spec"]["ports"])
        if entry["kind"] in ("NetworkPolicy", "PodDisruptionBudget"):
            key = "podSelector" if entry["kind"] == "NetworkPolicy" else "selector"
            selected = [pod for pod in found if selects(entry["spec"][key], pod)]
            assert selected, entry["metadata"]["name"]
            open_ports = {
                port["containerPort"] for s in selected for c in s["spec"]["containers"] for port in c.get("ports", [])
            }
            for rule in entry["spec"].get("ingress", []):
                # The tunnel of an ambient mesh is not the container's.
                assert {port["port"] for port in rule.get("ports", [])} <= open_ports | {15008}
        if entry["kind"] == "PodMonitor":
            names = {p["name"] for pod in found for c in pod["spec"]["containers"] for p in c.get("ports", [])}
            assert {endpoint["port"] for endpoint in entry["spec"]["podMetricsEndpoints"]} <= names


@each_case
def test_secrets_are_named_and_never_written(case: Path) -> None:
    objects = render(values_of(case))
    own = [entry["metadata"]["name"] for entry in objects if entry["kind"] == "Secret"]
    assert own == ([] if "auth" in values_of(case) else [f"{values_of(case).get('nameOverride', 'spring')}-tokens"])
    for pod in (pod for entry in objects for pod in pods(entry)):
        secrets = {volume["name"]: volume["secret"] for volume in pod["spec"]["volumes"] if "secret" in volume}
        # The pod's group reads them, nobody else, and nobody writes.
        assert all(secret["defaultMode"] == 0o440 for secret in secrets.values())
        for container in pod["spec"]["containers"]:
            mounts = [mount for mount in container["volumeMounts"] if mount["name"] in secrets]
            assert all(mount["readOnly"] is True for mount in mounts)
            files = {
                f"{mount['mountPath']}/{item['path']}" for mount in mounts for item in secrets[mount["name"]]["items"]
            }
            environment = container.get("env", [])
            plain = {"SHADOWPRICE_LEDGER_REDIS_DURABILITY", "SHADOWPRICE_LEDGER_REDIS_REPLICAS"}
            named = [e for e in environment if re.search("REDIS|PASSWORD|TOKEN", e["name"]) and e["name"] not in plain]
            assert all("secretKeyRef" in e.get("valueFrom", {}) or e.get("value") in files for e in named)
            # A file that no setting and no option names is one too many.
            options = {word.partition("=")[2] for word in container.get("args", [])}
            assert files <= {e.get("value") for e in environment} | options


def test_one_sentence_names_all_values_that_are_missing(helm: str) -> None:
    done = template(helm, MINIMAL, "--set", "campaign=,features.online.redis.existingSecret=,ledger.store=redis")
    assert done.returncode != 0
    for name in ("campaign (its", "features.online.redis.existingSecret (the", "ledger.redis.existingSecret (the"):
        assert name in done.stderr
    assert "^[" not in done.stderr


def test_a_name_that_cannot_be_a_campaigns_is_refused_without_a_regular_expression() -> None:
    with pytest.raises(HelmError, match=r'campaign: \\?"my camp\\?" cannot name a campaign; use letters'):
        render(merged(values_of(MINIMAL), "campaign", "my camp"))


@pytest.mark.parametrize("name", ["spring-ledger", "spring-console", "spring-predictor"])
def test_a_name_that_ends_as_another_campaigns_objects_do_is_refused(name: str) -> None:
    with pytest.raises(HelmError, match="collide in one namespace"):
        render(merged(values_of(MINIMAL), "campaign", name))


@each_case
def test_no_object_holds_what_the_api_server_drops(case: Path) -> None:
    """Empty lists, maps and texts of built-in kinds are not stored: ``kubectl diff`` would show them for ever."""

    def empties(value: object, path: str) -> list[str]:
        if isinstance(value, dict):
            return [found for key, each in value.items() for found in empties(each, f"{path}.{key}")] or (
                [] if value or path.endswith(("Selector", ".rayStartParams")) else [path]
            )
        if isinstance(value, list):
            return [each for i, entry in enumerate(value) for each in empties(entry, f"{path}[{i}]")] or (
                [] if value else [path]
            )
        # The group of ConfigMaps is called "".
        return [path] if value is None or (value == "" and not path.endswith(".apiGroups[0]")) else []

    objects = render(values_of(case))
    assert [path for entry in objects for path in empties(entry, f"{entry['kind']}/{entry['metadata']['name']}")] == []


def test_all_missing_kinds_are_named_also_where_their_group_has_others(helm: str) -> None:
    api = ("serving.kserve.io/v1beta1", "monitoring.coreos.com/v1", "monitoring.coreos.com/v1/PodMonitor", "ray.io/v1")
    present = [option for each in api for option in ("--api-versions", each)]
    done = template(helm, PRODUCTION, "--set", "checks.crds=true", *present)
    assert "has no monitoring.coreos.com/v1 PrometheusRule (install" in done.stderr
    assert "PodMonitor (" not in done.stderr
    done = template(helm, PRODUCTION, "--set", "checks.crds=true")
    for kind in ("InferenceService", "PodMonitor", "PrometheusRule", "RayJob", "RayCluster", "LocalQueue"):
        assert f" {kind} (" in done.stderr


@pytest.mark.parametrize(
    ("case", "path", "value", "named"),
    [
        ("minimal", "ledger.store", "redis", "ledger.redis.existingSecret"),
        ("one-node", "predictor.featureReader", "packed", "features.online.store"),
        ("minimal", "campaign", "Summer_2027", "nameOverride"),
        ("kubeflow", "ledger.decisionLog.enabled", False, "watch.enabled"),
    ],
)
def test_values_that_do_not_go_together_are_refused_by_name(case: str, path: str, value: object, named: str) -> None:
    with pytest.raises(HelmError, match=re.escape(named)):
        render(merged(values_of(CHART / "ci" / f"{case}-values.yaml"), path, value))


@pytest.mark.parametrize(
    ("operator", "named"),
    [
        ("serving.kserve.io/v1beta1", "install KServe"),
        ("monitoring.coreos.com/v1", "Prometheus operator"),
        ("ray.io/v1", "KubeRay"),
    ],
)
def test_a_missing_operator_is_named_before_anything_is_applied(operator: str, named: str, helm: str) -> None:
    kinds = {"serving.kserve.io/v1beta1", "monitoring.coreos.com/v1", "ray.io/v1", "kueue.x-k8s.io/v1beta1"}
    present = [option for api in sorted(kinds - {operator}) for option in ("--api-versions", api)]
    done = template(helm, PRODUCTION, "--set", "checks.crds=true", *present)
    assert done.returncode != 0
    assert named in done.stderr
    done = template(helm, PRODUCTION, "--set", "checks.crds=true", *present, "--api-versions", operator)
    assert done.returncode == 0, done.stderr


def test_helm_4_names_a_missing_operator_too() -> None:
    """Rendering without a cluster knows Kubernetes' own kinds; the first custom one that is asked for is refused."""
    with pytest.raises(
        HelmError, match=r"the API server has no serving\.kserve\.io/v1beta1 InferenceService \(install"
    ):
        render(merged(values_of(CHART / "ci" / "one-node-values.yaml"), "checks.crds", True))


@pytest.mark.parametrize(
    ("by", "annotation", "fields"),
    [
        ("hpa", "hpa", {"scaleMetric", "scaleTarget"}),
        ("keda", "keda", {"autoScaling"}),
        ("external", "external", set()),
        ("none", "none", set()),
    ],
)
def test_one_value_says_who_scales_the_predictor(by: str, annotation: str, fields: set[str]) -> None:
    objects = render(merged(values_of(MINIMAL), "predictor.autoscaling.by", by))
    [service] = [entry for entry in objects if entry["kind"] == "InferenceService"]
    assert service["metadata"]["annotations"]["serving.kserve.io/autoscalerClass"] == annotation
    assert service["metadata"]["annotations"]["serving.kserve.io/deploymentMode"] == "Standard"
    predictor = service["spec"]["predictor"]
    assert {"scaleMetric", "scaleTarget", "autoScaling"} & set(predictor) == fields
    assert (predictor["minReplicas"], predictor["maxReplicas"]) == (2, 2 if by == "none" else 6)
    # A scaler of the user's own starts from one replica, which a budget must not keep from being drained.
    [budget] = [entry["spec"] for entry in objects if entry["kind"] == "PodDisruptionBudget"]
    assert ({"maxUnavailable": 1} if by == "external" else {"minAvailable": 1}).items() <= budget.items()
    # KServe makes the scaler of its class; one of the chart's own would fight it.
    assert not [entry for entry in objects if entry["kind"] in ("HorizontalPodAutoscaler", "ScaledObject")]


def test_a_drain_leaves_a_predictor() -> None:
    objects = render(values_of(MINIMAL))
    [budget] = [entry for entry in objects if entry["kind"] == "PodDisruptionBudget"]
    [service] = [entry for entry in objects if entry["kind"] == "InferenceService"]
    # With as many as there are, no node could ever be drained.
    assert 1 <= budget["spec"]["minAvailable"] < service["spec"]["predictor"]["minReplicas"]
    with pytest.raises(HelmError, match="minAvailable"):
        render(merged(values_of(MINIMAL), "predictor.podDisruptionBudget", {"minAvailable": 2}))
    with pytest.raises(HelmError, match="replicas"):
        render(merged(values_of(MINIMAL), "predictor.replicas", {"min": 7, "max": 6}))


@each_case
def test_no_pod_and_no_account_gets_a_token_of_the_api_server(case: Path) -> None:
    objects = render(values_of(case))
    accounts = {entry["metadata"]["name"]: entry for entry in objects if entry["kind"] == "ServiceAccount"}
    assert all(account["automountServiceAccountToken"] is False for account in accounts.values())
    used = {pod["spec"].get("serviceAccountName") for entry in objects for pod in pods(entry)} - {None}
    assert used <= set(accounts)


def test_the_chart_tests_readiness_one_inference_and_the_age_of_the_price() -> None:
    [pod] = [entry for entry in render(values_of(PRODUCTION)) if entry["kind"] == "Pod"]
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    args = pod["spec"]["containers"][0]["args"]
    assert args[:3] == ["python", "-m", "serving.client.check"]
    given = dict(each[2:].split("=", 1) for each in args[3:])
    assert given == {
        "campaign": "summer_2027",
        "predictor-url": "http://summer-2027-predictor.growth.svc",
        "ledger-url": "http://summer-2027-ledger.growth.svc:8081",
        "max-price-age-seconds": "7200",
    }


def test_the_hourly_solve_never_overlaps_and_its_deadline_is_inside_the_hour() -> None:
    jobs = [entry for entry in render(values_of(MINIMAL)) if entry["kind"] == "CronJob"]
    assert len(jobs) == 2
    for job in jobs:
        assert job["spec"]["concurrencyPolicy"] == "Forbid"
        spec = job["spec"]["jobTemplate"]["spec"]
        assert job["spec"]["startingDeadlineSeconds"] + spec["activeDeadlineSeconds"] < 3600


def test_the_hook_that_schedules_ends_before_helm_stops_waiting() -> None:
    kubeflow = values_of(CHART / "ci" / "kubeflow-values.yaml")
    [hook] = [
        entry
        for entry in render(kubeflow)
        if "helm.sh/hook" in entry["metadata"].get("annotations", {})
        and entry["metadata"]["name"].endswith("-schedule")
    ]
    assert hook["spec"]["activeDeadlineSeconds"] < 300


def test_the_jobs_come_at_every_moment_that_the_default_pacer_asks_for() -> None:
    """A day from midnight: each moment of ``closing`` is due for the first time in a job of its own."""
    jobs = [entry for entry in render(values_of(MINIMAL)) if entry["kind"] == "CronJob"]
    times = sorted(at for job in jobs for at in day_of(job["spec"]["schedule"]))
    default = Campaign.__dataclass_fields__["pacer"].default
    moments = make_pacer(default).moments(24)
    assert [scheduled_slot(moments, at) for at in times] == [scheduled_slot(moments, moment) for moment in moments]
    assert len(times) == 24 + 11


def day_of(schedule: str) -> list[float]:
    """Hours of a day at which minutes and hours of a cron schedule (numbers, ranges with a step, ``*``) come."""

    def values(field: str, count: int) -> range:
        span, _, step = field.partition("/")
        first, _, last = span.partition("-")
        whole = span == "*"
        until = count if whole else int(last or first) + 1
        return range(0 if whole else int(first), until, int(step or 1))

    minute, hour, *rest = schedule.split()
    assert rest == ["*", "*", "*"]
    return [one + each / 60 for one in values(hour, 24) for each in values(minute, 60)]


def test_without_a_closing_schedule_there_is_one_job() -> None:
    values = values_of(MINIMAL)
    values.setdefault("resolve", {})["closingSchedule"] = ""
    [job] = [entry for entry in render(values) if entry["kind"] == "CronJob"]
    assert job["metadata"]["name"].endswith("-resolve")


@pytest.mark.parametrize("closing", ["5-55/5 23 * * *", "5-55/5 11 * * *", ""])
def test_a_kubeflow_schedule_comes_when_the_cron_jobs_would_and_has_none_beside_it(closing: str) -> None:
    values = merged(values_of(CHART / "ci" / "kubeflow-values.yaml"), "resolve.closingSchedule", closing)
    values["watch"] = {"enabled": False}
    objects = render(values)
    assert not [entry for entry in objects if entry["kind"] == "CronJob"]
    [job] = [entry for entry in objects if entry["metadata"]["name"] == "spring-schedule"]
    args = job["spec"]["template"]["spec"]["containers"][0]["args"]
    crons = [each.removeprefix("--cron=") for each in args if each.startswith("--cron=")]
    instead = [entry for entry in render(merged(values, "resolve.by", "cronjob")) if entry["kind"] == "CronJob"]
    # Kubeflow's field for seconds is before the usual five.
    assert crons == [f"0 {entry['spec']['schedule']}" for entry in instead]
    assert len(crons) == (2 if closing else 1)


def test_steps_may_do_what_a_ray_job_takes_and_nothing_else() -> None:
    objects = render(values_of(CHART / "ci" / "kubeflow-values.yaml"))
    [role] = [entry for entry in objects if entry["kind"] == "Role"]
    [template] = [entry for entry in objects if "rayjob.yaml" in entry.get("data", {})]
    allowed = {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    jobs = {("ray.io", "rayjobs", verb) for verb in ("create", "get", "patch", "delete")}
    assert allowed == {("", "configmaps", "get"), ("", "pods", "get")} | jobs
    [named] = [rule["resourceNames"] for rule in role["rules"] if rule["resources"] == ["configmaps"]]
    assert named == [template["metadata"]["name"]]
    [job] = [entry for entry in objects if entry["metadata"]["name"] == "spring-schedule"]
    assert f"--set=ray_job={named[0]}" in job["spec"]["template"]["spec"]["containers"][0]["args"]
    # Without the template no step could be sent there.
    with pytest.raises(HelmError, match="onRay"):
        render(merged(values_of(CHART / "ci" / "kubeflow-values.yaml"), "training.steps.enabled", False))


def test_what_cannot_be_made_again_survives_an_uninstall() -> None:
    claims = [entry for entry in render(values_of(MINIMAL)) if entry["kind"] == "PersistentVolumeClaim"]
    assert len(claims) == 2
    assert all(entry["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep" for entry in claims)


def amount(quantity: str | float) -> float:
    """A Kubernetes quantity as a number."""
    digits, unit = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", str(quantity)).groups()
    scale = {"": 1, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
    return float(digits) * scale[unit]
