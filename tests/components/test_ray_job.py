"""Steps as Ray jobs, against a server that behaves as the API server and the operator do."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from kube_api import Cluster, refusal, serving
from rendering import CHART, render, values_of

from components.ray_job import run_job
from components.ray_job.api import KubernetesRayJobs
from components.ray_job.exchange import EXCHANGE
from components.ray_job.watch import Patience, RayJobFailed
from operations import solve
from operations.solve import SolveJob
from shadowprice.errors import InvalidInput, Unavailable

ROOT = Path(__file__).resolve().parents[2]
QUICK = Patience(poll_seconds=0.01, unseen_seconds=0.5, silence_seconds=0.5, removal_seconds=2.0)
TEMPLATE = "spring-ray-job"

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:kubernetes.*")


@pytest.fixture(scope="session")
def crds(shared_data: Path, missing: Callable[[str], Any]) -> Path:
    folder = Path(os.environ.get("SHADOWPRICE_CRDS", shared_data.parent / "crds"))
    if not folder.is_dir():
        missing(f"no schemas of custom resources at {folder}; set SHADOWPRICE_CRDS")
    return folder


@pytest.fixture(scope="session")
def template() -> dict[str, str]:
    """The ConfigMap's data as the chart renders it."""
    objects = render(values_of(CHART / "ci" / "kubeflow-values.yaml"))
    [found] = [entry for entry in objects if "rayjob.yaml" in entry.get("data", {})]
    assert found["metadata"]["name"] == TEMPLATE
    return found["data"]


@pytest.fixture
def cluster(crds: Path, template: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    made = Cluster(crds)
    made.config_maps[TEMPLATE] = template
    with serving(made, tmp_path) as config:
        monkeypatch.setenv("KUBECONFIG", str(config))
        yield made


@pytest.fixture
def ask(tmp_path: Path, cluster: Cluster) -> Callable[..., str]:
    """Runs a solve as a Ray job, whose pods write what they read."""
    source = tmp_path / "artifacts" / "state"
    source.parent.mkdir()
    source.write_text("42")

    def run(**changes: Any) -> str:
        target = tmp_path / "artifacts" / "price"
        workspace = changes.pop("workspace", str(tmp_path / "ws"))
        job = SolveJob(state=source, price=target, workspace=workspace)
        run_job(job, **({"ray_job": TEMPLATE, "patience": QUICK} | changes))
        return target.read_text()

    return run


@pytest.fixture(autouse=True)
def entrypoint(tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the pods run: the same command line, with a solve that needs no feature store."""
    module = tmp_path / "fake_steps.py"
    module.write_text(
        "import json, sys; from pathlib import Path\n"
        "a = json.loads(sys.argv[2]); out = Path(a['price'])\n"
        "if Path(a['state']).read_text() == 'bad': sys.exit('solve failed: NotCertified: gap')\n"
        "out.write_text('price of ' + Path(a['state']).read_text())\n"
    )
    monkeypatch.setattr(cluster, "module", str(module), raising=False)


def test_a_step_runs_in_a_job_and_leaves_its_result_and_nothing_else(ask, cluster: Cluster, tmp_path: Path) -> None:
    assert ask() == "price of 42"
    [job] = cluster.created
    assert job["metadata"]["name"].startswith("spring-solve-")
    assert job["spec"]["entrypoint"].startswith("python -m operations solve ")
    assert job["spec"]["shutdownAfterJobFinishes"] is True
    assert job["spec"]["activeDeadlineSeconds"] > 0
    assert cluster.jobs == {}
    assert list((tmp_path / "ws" / EXCHANGE).iterdir()) == []


def test_it_does_only_what_the_charts_role_allows(ask, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFP_POD_NAME", "step")
    cluster.pods = {"step": pod_of("step", 900)}
    reconcile = cluster._reconcile
    monkeypatch.setattr(cluster, "_reconcile", lambda job: None)
    with pytest.raises(Unavailable):
        ask(patience=replace(QUICK, unseen_seconds=0.0))
    monkeypatch.setattr(cluster, "_reconcile", reconcile)
    # A job of an earlier try, which another pod owned.
    earlier = cluster.created[0]
    earlier["metadata"]["ownerReferences"] = []
    cluster.jobs[earlier["metadata"]["name"]] = earlier
    ask()
    role = next(e for e in render(values_of(CHART / "ci" / "kubeflow-values.yaml")) if e["kind"] == "Role")
    allowed = {(resource, verb) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]}
    assert cluster.verbs == allowed


def test_a_second_try_joins_the_job_that_runs(ask, cluster: Cluster, monkeypatch) -> None:
    answer = cluster.answer

    def cut_off(method: str, path: str, query: dict[str, list[str]], body: bytes) -> tuple[int, dict[str, Any]]:
        return refusal(500, "away") if cluster.created else answer(method, path, query, body)

    monkeypatch.setattr(cluster, "answer", cut_off)
    with pytest.raises(Unavailable, match="away"):
        ask()
    # The job goes on without whoever watched it.
    assert len(cluster.jobs) == 1
    monkeypatch.setattr(cluster, "answer", answer)
    assert ask() == "price of 42"
    assert len(cluster.created) == 1


def test_a_job_that_failed_is_made_again(ask, cluster: Cluster) -> None:
    cluster.fail = 1
    with pytest.raises(RayJobFailed, match="AppFailed"):
        ask()
    assert ask() == "price of 42"
    first, second = (job["metadata"]["name"] for job in cluster.created)
    assert first == second


def test_other_inputs_are_another_job(ask, cluster: Cluster, tmp_path: Path) -> None:
    ask()
    (tmp_path / "artifacts" / "state").write_text("43")
    assert ask() == "price of 43"
    assert len({job["metadata"]["name"] for job in cluster.created}) == 2


def test_a_deadline_is_told(ask, cluster: Cluster) -> None:
    cluster.late = True
    with pytest.raises(RayJobFailed, match="DeadlineExceeded"):
        ask()


def test_the_reason_of_a_step_that_fails_is_told(ask, tmp_path: Path) -> None:
    (tmp_path / "artifacts" / "state").write_text("bad")
    with pytest.raises(RayJobFailed, match="NotCertified: gap"):
        ask()
    assert not (tmp_path / "artifacts" / "price").exists()


def test_without_an_operator_the_job_is_taken_back(ask, cluster: Cluster) -> None:
    cluster.operator = False
    with pytest.raises(Unavailable, match="is KubeRay running"):
        ask()
    assert cluster.jobs == {}


def test_a_short_outage_of_the_api_server_is_sat_out(ask, cluster: Cluster, monkeypatch) -> None:
    answer = cluster.answer

    def flaky(method: str, path: str, query: dict[str, list[str]], body: bytes) -> tuple[int, dict[str, Any]]:
        if method == "GET" and "rayjobs" in path and len(cluster.created) == 1 and not broken:
            broken.append(1)
            cluster.outage = 3
        return answer(method, path, query, body)

    broken: list[int] = []
    monkeypatch.setattr(cluster, "answer", flaky)
    assert ask() == "price of 42"
    assert broken


def test_an_api_server_that_is_away_at_the_start_is_waited_for(ask, cluster: Cluster) -> None:
    cluster.outage = 5
    assert ask() == "price of 42"
    assert len(cluster.created) == 1


def test_what_the_account_may_not_do_is_refused_at_once_and_the_name_is_questioned(
    ask, cluster: Cluster, monkeypatch
) -> None:
    asked = []

    def forbid(method: str, path: str, query: dict[str, list[str]], body: bytes) -> tuple[int, dict[str, Any]]:
        asked.append(path)
        return refusal(403, 'configmaps "sprnig" is forbidden')

    monkeypatch.setattr(cluster, "answer", forbid)
    with pytest.raises(InvalidInput, match=r"ray_job: .* may not read ConfigMap sprnig: .*is the name the one"):
        ask(ray_job="sprnig")
    assert len(asked) == 1


def test_a_job_deleted_by_another_is_no_success(ask, cluster: Cluster, monkeypatch) -> None:
    reconcile = cluster._reconcile

    def gone(job: dict[str, Any]) -> None:
        reconcile(job)
        if job["status"]["jobDeploymentStatus"] == "Running":
            cluster.jobs.clear()

    monkeypatch.setattr(cluster, "_reconcile", gone)
    with pytest.raises(RayJobFailed, match="deleted by another"):
        ask()


@pytest.mark.parametrize(
    ("break_it", "told"),
    [
        (
            lambda job: job["spec"].pop("rayClusterSpec") and job["spec"].update(shutdownAfterFinish=True),
            "shutdownAfter",
        ),
        (lambda job: job["spec"].update(backoffLimit="two"), "two"),
    ],
)
def test_a_template_that_the_crd_refuses_is_refused_by_name(ask, cluster: Cluster, break_it, told: str) -> None:
    job = yaml.safe_load(cluster.config_maps[TEMPLATE]["rayjob.yaml"])
    break_it(job)
    cluster.config_maps[TEMPLATE] = {"rayjob.yaml": yaml.safe_dump(job)}
    with pytest.raises(InvalidInput, match=told):
        ask()
    assert cluster.created == []


def test_a_definition_without_authentication_refuses_the_job_and_names_the_field(ask, cluster: Cluster) -> None:
    # The default of the API server would drop the field with a warning and run an open cluster.
    cluster.missing = [("spec", "rayClusterSpec", "authOptions")]
    with pytest.raises(InvalidInput, match=r'unknown field "spec\.rayClusterSpec\.authOptions".*upgrade KubeRay'):
        ask()
    assert cluster.created == []


def test_a_missing_template_is_named(ask) -> None:
    with pytest.raises(InvalidInput, match="other-ray-job"):
        ask(ray_job="other-ray-job")


def test_a_job_needs_the_shared_folder(ask) -> None:
    with pytest.raises(InvalidInput, match="workspace"):
        ask(workspace="")


def test_the_longest_campaign_leaves_room_for_the_operators_services(ask, cluster: Cluster) -> None:
    text = cluster.config_maps[TEMPLATE]["rayjob.yaml"]
    cluster.config_maps[TEMPLATE] = {"rayjob.yaml": text.replace("name: spring\n", f"name: {'x' * 40}\n", 1)}
    assert ask() == "price of 42"
    [job] = cluster.created
    assert len(job["metadata"]["name"]) <= 47


def test_without_a_template_the_step_runs_here(ask, cluster: Cluster, monkeypatch) -> None:
    monkeypatch.setattr(solve, "run", lambda job: job.price.write_text("here"))
    assert ask(ray_job="") == "here"
    assert cluster.verbs == set()


@pytest.fixture
def running(cluster: Cluster, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a step, in a group of processes of its own, whose job never ends."""
    cluster._reconcile = lambda job: job.setdefault("status", {}).update(jobDeploymentStatus="Running")  # type: ignore
    (tmp_path / "state").write_text("42")
    code = (
        "from components.ray_job import run_job\n"
        "from operations.solve import SolveJob\n"
        f"job = SolveJob(state={str(tmp_path / 'state')!r}, price={str(tmp_path / 'price')!r}, "
        f"workspace={str(tmp_path)!r})\n"
        f"run_job(job, ray_job={TEMPLATE!r})\n"
    )
    started: list[subprocess.Popen[str]] = []

    def start(pod: str, seen: Callable[[], bool]) -> subprocess.Popen[str]:
        started.append(
            subprocess.Popen(
                [sys.executable, "-W", "ignore", "-c", code],
                cwd=ROOT,
                env={**os.environ, "KFP_POD_NAME": pod},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        )
        wait(seen)
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.communicate()


def wait(seen: Callable[[], bool]) -> None:
    """Wait until something is so, for a minute at most."""
    until = time.monotonic() + 60
    while not seen():
        assert time.monotonic() < until
        time.sleep(0.05)


def pod_of(name: str, deadline: int | None = None, age: float = 0.0) -> dict[str, Any]:
    """A pod of a step that was started so many seconds ago."""
    since = (datetime.now(UTC) - timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%SZ")
    spec = {"containers": [{"name": "main"}]} | ({"activeDeadlineSeconds": deadline} if deadline else {})
    return {"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": spec, "status": {"startTime": since}}


def test_a_stop_of_the_group_that_comes_twice_removes_the_job_also_while_the_server_is_away(
    cluster: Cluster, running: Callable[..., subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, refused = cluster.answer, []

    def away(method: str, *rest: Any) -> tuple[int, dict[str, Any]]:
        if method == "DELETE" and not refused:
            refused.append(1)
            return refusal(500, "etcdserver: leader changed")
        return answer(method, *rest)

    monkeypatch.setattr(cluster, "answer", away)
    child = running("", lambda: bool(cluster.created))
    os.killpg(child.pid, signal.SIGTERM)
    wait(lambda: bool(refused))
    os.killpg(child.pid, signal.SIGTERM)
    _, told = child.communicate(timeout=30)
    assert child.returncode != 0
    assert "KeyboardInterrupt" in told
    assert cluster.jobs == {}
    assert len(cluster.deleted) == 1


def test_a_stop_that_python_drops_is_followed_all_the_same(
    ask, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    get = KubernetesRayJobs.get

    def got(jobs: KubernetesRayJobs, name: str) -> dict[str, Any] | None:
        with suppress(KeyboardInterrupt):  # as where it comes while an object is being finalized
            os.kill(os.getpid(), signal.SIGTERM)
        return get(jobs, name)

    monkeypatch.setattr(KubernetesRayJobs, "get", got)
    cluster._reconcile = lambda job: job.setdefault("status", {}).update(jobDeploymentStatus="Running")  # type: ignore
    with pytest.raises(KeyboardInterrupt):
        ask()
    assert cluster.jobs == {}


def test_a_killed_step_leaves_a_job_that_ends_with_its_pods_and_at_its_deadline(
    cluster: Cluster, running: Callable[..., subprocess.Popen[str]]
) -> None:
    cluster.pods = {name: pod_of(name, 900, age=300.0) for name in ("first", "second")}
    child = running("first", lambda: bool(cluster.created))
    os.killpg(child.pid, signal.SIGKILL)
    assert child.wait(timeout=30) == -signal.SIGKILL
    [job] = cluster.jobs.values()
    # A busy machine takes its time to start the step.
    assert 540 <= job["spec"]["activeDeadlineSeconds"] <= 600
    [owner] = job["metadata"]["ownerReferences"]
    assert owner == {"apiVersion": "v1", "kind": "Pod", "name": "first", "uid": "uid-first"}
    # The second try joins the job, which its own pod then keeps.
    child = running("second", lambda: len(job["metadata"]["ownerReferences"]) == 2)
    cluster.remove_pod("first")
    assert len(cluster.jobs) == 1
    os.killpg(child.pid, signal.SIGKILL)
    child.wait(timeout=30)
    cluster.remove_pod("second")
    assert cluster.jobs == {}


def test_the_deadline_of_the_chart_holds_where_the_step_has_a_later_one_or_none(
    ask, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, template: dict[str, str], tmp_path: Path
) -> None:
    limit = yaml.safe_load(template["rayjob.yaml"])["spec"]["activeDeadlineSeconds"]
    cluster.pods = {"late": pod_of("late", 10 * limit), "free": pod_of("free"), "over": pod_of("over", 5, age=60.0)}
    for name, expected in (("late", limit), ("free", limit), ("gone", limit), ("over", 1)):
        monkeypatch.setenv("KFP_POD_NAME", name)
        (tmp_path / "artifacts" / "state").write_text(name)
        ask()
        assert cluster.created[-1]["spec"]["activeDeadlineSeconds"] == expected
        assert ("ownerReferences" in cluster.created[-1]["metadata"]) is (name != "gone")


@pytest.mark.parametrize("silent", [False, True], ids=["operator", "held back"])
def test_a_job_that_a_queue_suspends_and_resumes_is_waited_for(ask, cluster: Cluster, silent: bool) -> None:
    # Longer than an operator may be silent, then admitted, taken back, and admitted for good.
    cluster.quota = [*[False] * 100, True, True, True, False, False, False, True]
    cluster.held_back, cluster.operator = silent, not silent
    patience = replace(QUICK, unseen_seconds=0.1)
    assert ask(patience=patience) == "price of 42"
    assert len(cluster.created) == 1


def test_without_a_cluster_it_says_so(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nowhere"))
    with pytest.raises(Unavailable, match="needs a cluster"):
        KubernetesRayJobs()
