"""Commands of pipelines against a backend with many users: credentials and namespace before any upload."""

import json
import os
import shlex
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from kfp.client import Client
from kfp_backend import Backend, serving
from kfp_users import AUDIENCE, Users

from cli.doctor.finding import Target
from cli.doctor.pipelines import backend as backend_of
from pipelines.__main__ import main
from pipelines.cluster import NAMES, variable

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "run-pipelines.md"
STEPS = "system:serviceaccount:growth:spring-resolve"
COMMANDS = (["upload", "resolve"], ["run", "resolve"], ["schedule", "resolve"])


@pytest.fixture
def users() -> Users:
    """The release's account and a person may edit in growth; another account may read there."""
    reader = "system:serviceaccount:growth:reader"
    return Users(
        tokens={"good": (STEPS, AUDIENCE), "reader": (reader, AUDIENCE), "other": (STEPS, "https://kubernetes")},
        sessions={"authservice_session=abc": "ann@example.com"},
        edit={(STEPS, "growth"), ("ann@example.com", "growth")},
        view={(reader, "growth")},
    )


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    """Runs ``python -m pipelines`` in this process; gives its status, output and failure."""
    monkeypatch.setattr(Client, "_LOCAL_KFP_CONTEXT", str(tmp_path / "context.json"))
    for name in NAMES:
        monkeypatch.setenv(variable(name), "")

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(arguments)
        told = capsys.readouterr()
        return status, told.out, "".join(line for line in told.err.splitlines() if line.startswith("failed"))

    return run


def token(folder: Path, text: str) -> str:
    path = folder / text
    path.write_text(f"{text}\n")
    return f"--token-file={path}"


def nothing_in(backend: Backend) -> bool:
    return not (backend.pipelines or backend.experiments or backend.runs or backend.recurring)


def test_pipelines_runs_and_schedules_belong_to_the_namespace_that_is_named(command, users, tmp_path) -> None:
    with serving(users) as backend:
        to = [f"--host={backend.url}", "--namespace=growth", token(tmp_path, "good")]
        for words in (*COMMANDS, ["schedule", "resolve", "--cron=0 7 * * * *"]):
            status, told, problem = command(*words, *to, "--json")
            assert status == 0, problem
            assert json.loads(told)
        [pipeline] = backend.pipelines.values()
        assert pipeline["namespace"] == "growth"
        assert len(backend.versions[pipeline["pipeline_id"]]) == 4
        [experiment] = backend.experiments.values()
        assert experiment["namespace"] == "growth"
        assert len(backend.runs) == len(backend.recurring) == 1
        assert {(user, space) for user, _, _, space in users.asked} == {(STEPS, "growth")}
        [planned] = backend.recurring
        assert command("unschedule", "shadowprice-resolve", *to)[1] == f"deleted {planned}\n"
        assert backend.recurring == {}
        assert command("unschedule", "shadowprice-resolve", *to)[1] == "there is no such schedule\n"
        # An earlier pipeline of the same name in another namespace is another pipeline.
        users.edit.add((STEPS, "autumn"))
        assert command("upload", "resolve", to[0], "--namespace=autumn", to[2])[0] == 0
        assert [each["namespace"] for each in backend.pipelines.values()] == ["growth", "autumn"]


@pytest.mark.parametrize("words", COMMANDS)
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((), "--token-file (audience pipelines.kubeflow.org) or --cookie-file"),
        (("other",), "--token-file (audience pipelines.kubeflow.org)"),
        (("reader",), "the role kubeflow-pipelines-edit in it"),
    ],
)
def test_a_refused_try_leaves_nothing_behind(command, users, tmp_path, words, given, told) -> None:
    with serving(users) as backend:
        tokens = [token(tmp_path, each) for each in given]
        status, _, problem = command(*words, f"--host={backend.url}", "--namespace=growth", *tokens)
        assert status == 1
        assert told in problem
        assert nothing_in(backend)


def test_a_namespace_is_needed_and_taken_from_what_the_sdk_has_saved(command, users, tmp_path) -> None:
    with serving(users) as backend:
        to = [f"--host={backend.url}", token(tmp_path, "good")]
        status, _, problem = command("upload", "resolve", *to)
        assert status == 1
        assert "namespace: " in problem
        assert "name the profile" in problem
        assert nothing_in(backend)
        saved = {"namespace": "growth", "client_authentication_cookie": "authservice_session=abc"}
        (tmp_path / "context.json").write_text(json.dumps(saved))
        assert command("schedule", "resolve", f"--host={backend.url}")[0] == 0
        assert {user for user, *_ in users.asked} == {"ann@example.com"}
        assert len(backend.recurring) == 2


def test_a_page_to_sign_in_is_no_answer_and_a_cookie_passes_it(command, users, tmp_path) -> None:
    users.gateway = True
    with serving(users) as backend:
        to = [f"--host={backend.url}", "--namespace=growth"]
        status, _, problem = command("upload", "resolve", *to)
        assert status == 1
        assert "a page to sign in answers" in problem
        assert "--cookie-file" in problem
        cookie = tmp_path / "cookie"
        cookie.write_text("authservice_session=abc\n")
        assert command("upload", "resolve", *to, f"--cookie-file={cookie}")[0] == 0
        assert [each["namespace"] for each in backend.pipelines.values()] == ["growth"]


def test_a_pod_shows_its_projected_token(command, users, tmp_path, monkeypatch) -> None:
    token(tmp_path, "good")
    monkeypatch.setenv("KF_PIPELINES_SA_TOKEN_PATH", str(tmp_path / "good"))
    with serving(users) as backend:
        assert command("upload", "train", f"--host={backend.url}", "--namespace=growth")[0] == 0
        assert {user for user, *_ in users.asked} == {STEPS}


def test_only_shared_uploads_for_all(command, users, tmp_path) -> None:
    with serving(users) as backend:
        to = [f"--host={backend.url}", "--namespace=growth", token(tmp_path, "good")]
        assert command("run", "resolve", *to, "--shared")[0] == 0
        [pipeline] = backend.pipelines.values()
        assert pipeline["namespace"] == ""
        assert [backend.experiments[run["experiment_id"]]["namespace"] for run in backend.runs.values()] == ["growth"]


def test_a_file_of_credentials_that_cannot_be_read_is_named(command, users, tmp_path) -> None:
    with serving(users) as backend:
        status, _, problem = command("upload", "train", f"--host={backend.url}", f"--token-file={tmp_path / 'none'}")
        assert status == 1
        assert f"token_file: {tmp_path / 'none'} cannot be read" in problem
        assert nothing_in(backend)


@pytest.mark.parametrize("host", ["http://ml-pipeline.kubeflow:8888", "http://ml-pipeline.kubeflow.svc.cluster.local"])
def test_one_user_means_one_namespace(command, host, monkeypatch) -> None:
    with serving() as backend:
        # The name of the Service stands for its address.
        monkeypatch.setenv("http_proxy", "")
        connect = Client._load_config
        monkeypatch.setattr(Client, "_load_config", lambda self, _host, *rest: connect(self, backend.url, *rest))
        status, _, problem = command("schedule", "resolve", f"--host={host}", "--namespace=growth")
        assert status == 1
        assert "has one user and runs everything in kubeflow" in problem
        assert "install the release in kubeflow" in problem
        assert nothing_in(backend)
        assert command("schedule", "resolve", f"--host={host}", "--namespace=kubeflow")[0] == 0
        assert command("run", "resolve", f"--host={host}")[0] == 0
        assert [run["display_name"] for run in backend.runs.values()] == ["shadowprice-resolve"]


def test_no_address_is_told_in_one_line(command, monkeypatch) -> None:
    monkeypatch.delenv("KF_PIPELINES_ENDPOINT", raising=False)
    status, _, problem = command("upload", "train")
    assert status == 1
    assert "host: name the address" in problem


ONE_BY_ONE = """
import json, sys
from pipelines.__main__ import main
for line in sys.stdin:
    print(main(json.loads(line)), flush=True)
"""
"""Pipelines are built when they are imported, for one cluster: these commands have a process of their own."""


@pytest.mark.parametrize("namespace", ["growth", "kubeflow"])
def test_the_commands_of_the_guide_run_and_end_a_schedule(users, tmp_path, namespace) -> None:
    """In the namespace of a profile, and on a Kubeflow of one user in its own."""
    token(tmp_path, "good")
    (tmp_path / "good").rename(tmp_path / "token")
    lines = [line for line in GUIDE.read_text().splitlines() if line.startswith("    shadowprice pipelines ")]
    verbs = []
    with serving(users if namespace == "growth" else None) as backend:
        environment = {**os.environ, "KF_PIPELINES_ENDPOINT": backend.url, "HOME": str(tmp_path)}
        command = [sys.executable, "-W", "ignore", "-c", ONE_BY_ONE]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen(command, cwd=tmp_path, env=environment, **pipes) as child:
            for line in lines:
                words = shlex.split(line.replace("https://kubeflow.example", backend.url).replace("growth", namespace))
                child.stdin.write(json.dumps(words[2:]) + "\n")
                child.stdin.flush()
                while (told := child.stdout.readline().strip()) not in ("0", "1", "2", ""):
                    pass
                assert told == "0"
                verbs.append((words[2], len(backend.pipelines), len(backend.runs), len(backend.recurring)))
            child.stdin.close()
        owners = {each["namespace"] for each in backend.pipelines.values()}
    assert verbs == [
        ("compile", 0, 0, 0),
        ("upload", 1, 0, 0),
        ("run", 1, 1, 0),
        ("schedule", 2, 1, 2),
        ("unschedule", 2, 1, 0),
    ]
    assert owners == {"growth" if namespace == "growth" else ""}


def test_an_authority_of_the_machine_is_trusted(command, users, tmp_path, monkeypatch) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(
        [*made, "-subj", "/CN=kfp", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True
    )
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    with serving(users, tls) as backend:
        words = ["unschedule", "none", f"--host={backend.url}", "--namespace=growth", token(tmp_path, "good")]
        monkeypatch.delenv("SSL_CERT_FILE", raising=False)
        assert command(*words)[0] == 1
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert command(*words)[1] == "there is no such schedule\n"


def test_doctor_names_no_credentials_no_namespace_and_the_wrong_one_in_a_sentence(users, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(Client, "_LOCAL_KFP_CONTEXT", str(tmp_path / "context.json"))
    token(tmp_path, "good")

    def found(host: str, namespace: str) -> list[str]:
        return [each.sentence for each in backend_of(Target(pipelines_url=host, namespace=namespace))]

    with serving(users) as backend:
        [told] = found(backend.url, "growth")
        assert "User identity is empty in the request header; show who calls by --token-file" in told
        monkeypatch.setenv("KF_PIPELINES_SA_TOKEN_PATH", str(tmp_path / "good"))
        assert found(backend.url, "growth") == []
        [told] = found(backend.url, "")
        assert "has many users; name the profile" in told
        [told] = found(backend.url, "autumn")
        assert "is not authorized" in told
        assert "the role kubeflow-pipelines-edit in it." in told
    with serving() as backend:
        [told] = found(backend.url, "growth")
        assert "has one user and runs everything in kubeflow" in told
        assert found(backend.url, "kubeflow") == []
    [told] = found("http://127.0.0.1:1", "growth")
    assert told.endswith("; start it or correct the address.")
