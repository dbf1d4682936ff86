"""Commands that the chart prints and the pages show: programs take them, and the release has what they name."""

import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from api_server import ApiServer, serving
from rendering import CASES, CHART, NAMESPACE, RELEASE, Objects, merged, pods, render, rendered, values_of
from snippets import ROOT, blocks, pages, shell_of
from snippets import commands as commands_of

from serving.protocol import decode_v1

PLURALS = {"inferenceservice": "InferenceService", "cronjob": "CronJob", "job": "Job"}

each_way = pytest.mark.parametrize(
    "values",
    [
        pytest.param(merged(values_of(case), "resolve.by", by), id=f"{case.stem.removesuffix('-values')}-{by}")
        for case in CASES
        for by in ("cronjob", "kfp", "none")
    ],
)


def notes(values: dict[str, Any]) -> str:
    """Return the notes that Helm 4 renders."""
    return rendered(values)["shadowprice/templates/NOTES.txt"]


def commands(text: str) -> list[list[str]]:
    """The words of each indented line; a line that ends in a backslash goes on in the next."""
    lines = text.replace("\\\n", " ").splitlines()
    return [shlex.split(line) for line in lines if line.startswith("  ")]


def named(objects: Objects, kind: str) -> set[str]:
    return {entry["metadata"]["name"] for entry in objects if entry["kind"] == kind}


def test_both_generations_of_helm_say_the_same(helm: str, crds: Path, tmp_path: Path) -> None:
    """Helm 3 says it only of an installation, here a dry run on an API server that has the custom resources."""
    with serving(ApiServer(crds), tmp_path) as config:
        for case in CASES:
            values = merged(values_of(case), "checks.crds", True)
            (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
            done = subprocess.run(
                [
                    *(helm, "install", RELEASE, str(CHART), "--namespace", NAMESPACE, "--dry-run"),
                    *("--disable-openapi-validation", "--values", str(tmp_path / "values.yaml")),
                ],
                capture_output=True,
                text=True,
                check=False,
                env={**os.environ, "KUBECONFIG": str(config), "HOME": str(tmp_path)},
            )
            assert done.returncode == 0, done.stderr
            assert done.stdout.partition("NOTES:\n")[2].strip() == notes(values_of(case)).strip(), case.stem


@each_way
def test_every_command_names_what_the_release_has(values: dict[str, Any]) -> None:
    objects = render(values)
    said = {"curl": 0, "helm": 0, "kubectl": 0}
    for words in commands(notes(values)):
        match words:
            case ["kubectl", "-n", namespace, "get", kind, name]:
                assert name in named(objects, PLURALS[kind])
            case ["kubectl", "-n", namespace, "create", "job", source, name]:
                kind, _, origin = source.removeprefix("--from=").partition("/")
                assert origin in named(objects, PLURALS[kind])
                assert name not in named(objects, "Job")
                assert len(name) <= 63
            case ["kubectl", "-n", namespace, "logs", source]:
                kind, _, name = source.partition("/")
                assert name in named(objects, PLURALS[kind])
            case ["kubectl", "-n", namespace, "port-forward", service, port]:
                [found] = [
                    each for each in objects if each["kind"] == "Service" and service.endswith(each["metadata"]["name"])
                ]
                assert int(port) in {each["port"] for each in found["spec"]["ports"]}
            case ["helm", "test", "-n", namespace, release]:
                assert release == RELEASE
                assert any("helm.sh/hook" in entry["metadata"].get("annotations", {}) for entry in objects)
            case ["curl", "-s", address, *_]:
                namespace = reached(urlsplit(address), objects)
            case [first, *_] if first.startswith("TOKEN=$("):
                # Split at the substitution's own words; its secret is looked at below.
                continue
            case _:
                pytest.fail(f"no such command is known: {words}")
        assert namespace == NAMESPACE
        said[words[0]] += 1
    assert said["curl"] == 2
    assert said["helm"] == 1
    shown = values.get("console", {}).get("enabled", False)
    # One of each campaign, where its price is solved again.
    campaigns = len(values.get("campaigns", "1"))
    assert said["kubectl"] == 1 + {"cronjob": 1, "kfp": 1, "none": 0}[values["resolve"]["by"]] * campaigns + shown


def reached(address: Any, objects: Objects) -> str:
    """The namespace of a Service at whose address and port somebody listens."""
    service, namespace, domain = address.hostname.split(".")
    assert domain == "svc"
    predictors = {f"{name}-predictor" for name in named(objects, "InferenceService")}
    if service in predictors:
        # KServe makes this Service, on port 80.
        assert address.port is None
        return namespace
    [found] = [entry for entry in objects if (entry["kind"], entry["metadata"]["name"]) == ("Service", service)]
    assert address.port in {port["port"] for port in found["spec"]["ports"]}
    return namespace


@each_way
def test_a_predictor_takes_the_request_that_it_is_told_with(values: dict[str, Any]) -> None:
    [request] = [words for words in commands(notes(values)) if words[0] == "curl" and ":predict" in words[2]]
    campaign = values.get("campaign") or min(values["campaigns"])
    assert urlsplit(request[2]).path == f"/v1/models/{campaign}:predict"
    decode_v1(json.loads(request[request.index("-d") + 1]), 1)
    headers = [request[place + 1] for place, word in enumerate(request) if word == "-H"]
    assert headers == ["authorization: Bearer $TOKEN", "content-type: application/json"]


@pytest.mark.parametrize("key", ["bearer", "token.txt"])
def test_the_callers_token_is_where_the_notes_read_it(key: str) -> None:
    values = merged(values_of(CHART / "ci" / "production-values.yaml"), "auth.key", key)
    [line] = [line for line in notes(values).splitlines() if "TOKEN=$(" in line]
    found = re.fullmatch(
        r"  TOKEN=\$\(kubectl -n (\S+) get secret (\S+) -o jsonpath='\{\.data\.(\S+)\}' \| base64 -d\)", line
    )
    assert found is not None
    [token] = [
        volume["secret"]
        for entry in render(values)
        if entry["kind"] == "InferenceService"
        for pod in pods(entry)
        for volume in pod["spec"]["volumes"]
        if volume["name"] == "token"
    ]
    # A dot in a key would begin another field.
    escaped = token["items"][0]["key"].replace(".", "\\.")
    assert found.groups() == (NAMESPACE, token["secretName"], escaped)


@pytest.mark.parametrize("closing", ["5-55/5 23 * * *", ""])
@pytest.mark.parametrize("by", ["cronjob", "kfp"])
def test_the_times_of_the_resolve_are_said(by: str, closing: str) -> None:
    values = merged(values_of(CHART / "ci" / "minimal-values.yaml"), "resolve", {"by": by, "closingSchedule": closing})
    expected = "2 * * * *" + (f" and {closing}" if closing else "")
    assert f"({expected}, UTC)" in notes(values)


def test_a_price_that_nobody_solves_again_is_said() -> None:
    values = values_of(CHART / "ci" / "minimal-values.yaml")
    assert "grows stale" in notes(merged(values, "resolve.by", "none"))
    assert "grows stale" not in notes(values)


def test_a_release_that_nothing_tells_from_others_on_a_prometheus_is_told_so() -> None:
    values = values_of(CHART / "ci" / "minimal-values.yaml")
    assert "mixes the series" not in notes(values)
    assert "mixes the series" in notes(merged(values, "monitoring.selectors", {"namespace": None}))


KINDS = {"deploy": "Deployment", "cronjob": "CronJob"}
PROGRAMS = ("kubectl", "helm")
TEXT = {str(page.relative_to(ROOT)): page.read_text() for page in pages()}


def lines() -> list[tuple[str, list[str]]]:
    """Words of every line, from blocks and from sentences, with the page it is on."""
    written = [(str(block), words) for block in blocks() for words in commands_of(shell_of(block))]
    inline = re.compile(r"(?<!`)`((?:kubectl|helm) [^`\n]+)`(?!`)")
    written += [
        (page, words) for page, text in TEXT.items() for line in inline.findall(text) for words in commands_of(line)
    ]
    return [(page, words) for page, words in written if words[0] in PROGRAMS and "…" not in words]


def test_the_programs_take_the_options_of_every_line(kubectl: str, helm: str, tmp_path: Path) -> None:
    """Help comes after the options were read, so an unknown one is told."""
    found, at = lines(), {"kubectl": kubectl, "helm": helm}
    assert len(found) > 30
    for page, words in found:
        if words[-1].startswith("-"):
            words = [*words, "given"]
        end = words.index("--") if "--" in words else len(words)
        asked = [at[words[0]], *words[1:end], "--help"]
        done = subprocess.run(asked, capture_output=True, text=True, env={"HOME": str(tmp_path)})
        assert done.returncode == 0, f"{page}: {' '.join(words)}: {done.stderr}"
        # Both print their general help for a verb that they do not have.
        usage = done.stdout.partition("Usage:")[2].split()
        assert usage[1] in words, f"{page}: {' '.join(words)}"


def test_the_chart_has_every_object_and_component_that_a_page_names() -> None:
    objects = [entry for case in CASES for entry in render(values_of(case))]
    names = {(entry["kind"], entry["metadata"]["name"]) for entry in objects}
    components = {entry["metadata"].get("labels", {}).get("app.kubernetes.io/component") for entry in objects}
    named = {match for text in TEXT.values() for match in re.findall(r"\b(deploy|cronjob)/<\w+>(-[a-z-]+)", text)}
    assert len(named) >= 3
    for kind, suffix in named:
        assert any(found == KINDS[kind] and name.endswith(suffix) for found, name in names), f"{kind}/…{suffix}"
    selected = {match for text in TEXT.values() for match in re.findall(r"kubernetes\.io/component=([a-z-]+)", text)}
    assert len(selected) >= 3
    assert selected <= components
