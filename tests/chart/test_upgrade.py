"""A release can be upgraded and rolled back: nothing changes that an API server would not let change."""

import copy
from pathlib import Path
from typing import Any

import pytest
from helm_python import HelmError
from rendering import CASES, CHART, merged, pods, render, values_of
from upgrades import chart_of, kept, previous_tag, refused

MINIMAL = values_of(CHART / "ci" / "minimal-values.yaml")
PRODUCTION = values_of(CHART / "ci" / "production-values.yaml")
CHANGES: list[tuple[str, Any]] = [
    ("images.serving.tag", "9.9.9"),
    ("images.ledger.digest", f"sha256:{'1' * 64}"),
    ("commonLabels", {"team": "another"}),
    ("auth", {"existingSecret": "callers"}),
    ("workspace.size", "20Gi"),
    ("predictor.replicas", {"min": 5, "max": 9}),
    ("predictor.autoscaling.by", "none"),
    ("predictor.autoscaling.by", "keda"),
    ("predictor.grpc", {"enabled": True, "port": 9100}),
    ("predictor.podDisruptionBudget.enabled", False),
    ("ledger.store", "redis"),
    ("ledger.decisionLog.enabled", False),
    ("ledger.resources.limits.memory", "3Gi"),
    ("resolve.by", "none"),
    ("resolve.by", "kfp"),
    ("resolve.schedule", "*/5 * * * *"),
    ("training.steps", {"enabled": True}),
    ("training.rayCluster.enabled", True),
    ("kueue.queue", "growth"),
    ("monitoring.rules.enabled", False),
    ("networkPolicy.enabled", False),
]


def test_a_release_of_the_previous_tag_takes_todays_chart(tmp_path: Path) -> None:
    tag = previous_tag()
    if not tag:
        pytest.skip("no release is tagged yet")
    before = chart_of(tag, tmp_path / "before")
    taken = [values for case in CASES if (values := before / "ci" / case.name).exists()]
    assert taken
    for values in taken:
        given = values_of(values)
        was, now = kept(render(given, chart=before)), kept(render(given, revision=2))
        assert refused(was, now) == [], values.stem
        assert {name for name in was.keys() - now.keys() if not name.startswith("RayJob/")} == set()


@pytest.mark.parametrize(("path", "value"), CHANGES, ids=lambda value: str(value)[:40])
def test_a_change_of_values_can_be_applied_and_taken_back(path: str, value: Any) -> None:
    given = merged(MINIMAL, "ledger.redis", {"existingSecret": "ledger-redis"})
    before, after = kept(render(given)), kept(render(merged(given, path, value), revision=2))
    assert refused(before, after) == []
    # Except for a claim, which only grows.
    back = [each for each in refused(after, before) if "shrinks" not in each]
    assert back == []


def test_the_check_finds_what_an_api_server_would_refuse() -> None:
    objects = render(PRODUCTION)
    names = {"Deployment", "Service", "RayJob", "InferenceService"}
    for kind in names:
        changed = copy.deepcopy(objects)
        entry = next(each for each in changed if each["kind"] == kind)
        match kind:
            case "Deployment":
                entry["spec"]["selector"]["matchLabels"]["version"] = "2"
            case "Service":
                entry["spec"]["type"] = "NodePort"
            case "RayJob":
                entry["spec"]["entrypoint"] = "another"
            case "InferenceService":
                entry["metadata"]["annotations"]["serving.kserve.io/deploymentMode"] = "Knative"
        [told] = refused(kept(objects), kept(changed))
        assert told.startswith(kind)
    smaller = kept(render(merged(MINIMAL, "workspace.size", "1Gi")))
    assert [each for each in refused(kept(render(MINIMAL)), smaller) if "shrinks from 10Gi to 1Gi" in each]


def test_a_claim_cannot_change_its_class_or_modes_so_these_are_refused() -> None:
    before = kept(render(MINIMAL))
    for path, value in (("workspace.accessModes", ["ReadWriteOnce"]), ("ledger.storage.storageClassName", "fast")):
        assert refused(before, kept(render(merged(MINIMAL, path, value)))) != []


def test_an_upgrade_leaves_the_training_job_alone_and_a_new_run_is_a_job_of_its_own() -> None:
    again = merged(PRODUCTION, "training.rayJob.run", "may-2")
    jobs = [
        [entry for entry in render(values, revision) if entry["kind"] == "RayJob"]
        for values, revision in ((PRODUCTION, 1), (PRODUCTION, 2), (again, 3))
    ]
    assert jobs[0] == jobs[1]
    assert [job["metadata"]["name"] for [job] in jobs[1:]] == ["summer-2027-train-1", "summer-2027-train-may-2"]
    longest = merged(merged(PRODUCTION, "nameOverride", "a" * 40), "training.rayJob.run", "b" * 10)
    [job] = [entry for entry in render(longest) if entry["kind"] == "RayJob"]
    assert len(job["metadata"]["name"]) <= 47


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_selectors_hold_nothing_that_a_new_version_changes(case: Path) -> None:
    for entry in render(values_of(case)):
        selector = entry.get("spec", {}).get("selector", {})
        labels = selector.get("matchLabels", selector) if entry["kind"] in ("Deployment", "Service") else {}
        assert not {"helm.sh/chart", "app.kubernetes.io/version"} & set(labels)


def test_what_the_order_of_an_upgrade_relies_on() -> None:
    """docs/how-to/upgrade.md: a suspended re-solve stays so, predictors roll, a ledger never runs twice."""
    objects = {entry["kind"]: entry for entry in render(MINIMAL)}
    # What is not rendered is left as it was patched.
    assert "suspend" not in objects["CronJob"]["spec"]
    rolling = objects["InferenceService"]["spec"]["predictor"]["deploymentStrategy"]
    assert rolling == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    assert objects["Deployment"]["spec"]["strategy"] == {"type": "Recreate"}
    assert objects["Deployment"]["spec"]["replicas"] == 1
    with pytest.raises(HelmError, match=r"ledger.replicas: more than one needs ledger.store redis"):
        render(merged(MINIMAL, "ledger.replicas", 2))
    for pod in (pod for entry in objects.values() for pod in pods(entry)):
        assert pod["spec"].get("terminationGracePeriodSeconds", 30) >= 30


def test_several_ledgers_roll_over_one_redis_and_drain() -> None:
    several = merged(PRODUCTION, "ledger.replicas", 3)
    [ledger] = [entry for entry in render(several) if entry["kind"] == "Deployment"]
    assert ledger["spec"]["replicas"] == 3
    assert ledger["spec"]["strategy"] == {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    env = {each["name"]: each.get("value") for each in ledger["spec"]["template"]["spec"]["containers"][0]["env"]}
    drain = float(env["SHADOWPRICE_LEDGER_DRAIN_SECONDS"])
    assert 0 < drain + 5 < ledger["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    budgets = {e["metadata"]["name"] for e in render(several) if e["kind"] == "PodDisruptionBudget"}
    assert "summer-2027-ledger" in budgets
    # They share the decision log, so a claim of the chart's must be one that several nodes mount.
    own = merged(several, "ledger.storage.existingClaim", "")
    with pytest.raises(HelmError, match="needs ReadWriteMany"):
        render(own)
    shared = render(merged(own, "ledger.storage.accessModes", ["ReadWriteMany"]))
    assert ["ReadWriteMany"] in [e["spec"]["accessModes"] for e in shared if e["kind"] == "PersistentVolumeClaim"]
