"""The console in the chart: its own settings, what it may read, and who reaches it."""

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from helm_python import HelmError
from rendering import CHART, merged, render, values_of
from test_network import NEIGHBOR, STRANGER, admitted, foreign, own

from serving.console.__main__ import ConsoleSettings
from serving.console.access import role_of
from serving.console.login import Provider
from serving.http.tokens import Tokens

VALUES = values_of(CHART / "ci" / "console-values.yaml")


def pod(values: dict[str, Any]) -> dict[str, Any]:
    [found] = [
        each["spec"]["template"]["spec"]
        for each in render(values)
        if each["kind"] == "Deployment" and each["metadata"]["name"].endswith("-console")
    ]
    return found


def variables(spec: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in spec["containers"][0]["env"]}


def test_the_console_reads_what_the_chart_mounts_and_can_write_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = pod(VALUES)
    monkeypatch.setattr(sys, "argv", ["serving.console"])
    for name, value in variables(spec).items():
        monkeypatch.setenv(name, value)
    settings = ConsoleSettings.parse()
    mounts = {each["mountPath"]: each for each in spec["containers"][0]["volumeMounts"]}
    for path in (settings.campaign_file, settings.prices_dir, settings.workspace, settings.lift_file, settings.log_dir):
        [mount] = [mounts[each] for each in mounts if path.is_relative_to(each)]
        assert mount["readOnly"] is True
    assert {path for path, mount in mounts.items() if not mount.get("readOnly")} == {"/tmp"}
    assert settings.oidc_client_secret_file == Path("/etc/shadowprice/oidc/client-secret")
    assert mounts["/etc/shadowprice/oidc"]["readOnly"] is True
    sign_on = Provider(
        issuer=settings.oidc_issuer,
        client_id=settings.oidc_client_id,
        client_secret="s",
        public_url=settings.public_url,
        allow=settings.oidc_allow,
        scope=settings.oidc_scope,
    )
    assert sign_on.admits({"groups": ["budget-owners"]})
    assert settings.ledger_url == "http://spring-ledger.growth.svc:8081"
    ports = {each["containerPort"] for each in spec["containers"][0]["ports"]}
    assert ports == {settings.port, settings.probe_port}
    without = variables(pod(merged(VALUES, "ledger.decisionLog.enabled", False)))
    assert "SHADOWPRICE_LEDGER_LOG_DIR" not in without


def test_its_tokens_read_the_ledger_and_open_the_pages_and_no_more(tmp_path) -> None:
    [secret] = [each for each in render(VALUES) if each["kind"] == "Secret"]
    file = tmp_path / "token"
    file.write_bytes(base64.b64decode(secret["data"]["console"]))
    assert set(json.loads(file.read_text())) == {"read", "view"}
    assert role_of("GET", "/campaigns/spring") == "view"
    assert Tokens.of(file) is not None
    [volume] = [each for each in pod(VALUES)["volumes"] if each["name"] == "token"]
    assert volume["secret"]["items"] == [{"key": "console", "path": "token"}]


def test_callers_reach_the_console_and_it_reaches_the_ledger_and_the_provider_alone() -> None:
    console = own("console")
    assert admitted(VALUES, foreign("checkout"), console, 8082)
    for caller in (STRANGER, NEIGHBOR, foreign("monitoring"), own("predictor")):
        assert not admitted(VALUES, caller, console, 8082)
    assert admitted(VALUES, console, own("ledger"), 8081)
    alone = merged(VALUES, "console.oidc.issuer", "")
    for values, reached in ((VALUES, [{8081}, {53}, {443}]), (alone, [{8081}, {53}])):
        [policy] = [
            each["spec"]
            for each in render(values)
            if each["kind"] == "NetworkPolicy" and each["metadata"]["name"].endswith("-console")
        ]
        assert [{port["port"] for port in rule["ports"]} for rule in policy["egress"]] == reached
    assert not any("OIDC" in name for name in variables(pod(alone)))


@pytest.mark.parametrize("name", ["clientId", "existingSecret", "allow", "publicUrl"])
def test_single_sign_on_needs_all_its_values(name: str) -> None:
    with pytest.raises(HelmError, match=rf"console\.oidc\.{name}: give one"):
        render(merged(VALUES, f"console.oidc.{name}", ""))


def test_by_default_there_is_none() -> None:
    names = {each["metadata"]["name"] for each in render(merged(VALUES, "console.enabled", False))}
    assert not any("console" in name for name in names)
