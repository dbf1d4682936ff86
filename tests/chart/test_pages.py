"""Names that the pages give a reader of a cluster: the release of the guides has them, the chart takes the values."""

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from rendering import CHART, NAMESPACE, Objects, merged, pods, render, values_of
from snippets import FENCED, INDENTED, ROOT, blocks, commands, pages, shell_of

CAMPAIGN, INSTALL = "spring", ROOT / "docs/examples/install/values.yaml"
TEXTS = {str(page.relative_to(ROOT)): page.read_text() for page in pages()}
CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
KINDS = {"deploy": "Deployment", "cronjob": "CronJob", "svc": "Service", "secret": "Secret", "configmap": "ConfigMap"}
PARTS = {
    "checks.crds": False,
    "resolve.closingSchedule": "5-55/5 23 * * *",
    "watch.enabled": True,
    "stream": {"enabled": True, "sink": {"url": "http://sink"}},
    "console.enabled": True,
    "training.steps.enabled": True,
}
"""Values of the parts that the guides name and that an installation need not have."""
SECRETS = {"auth.existingSecret": "callers", "ledger.redis.existingSecret": "ledger-redis", "ledger.store": "redis"}


def code(text: str) -> list[str]:
    """Code of a page, from blocks and sentences, with the names of the campaign that the guides install."""
    found = [match[3] for match in FENCED.finditer(text)]
    rest = FENCED.sub("", text)
    found += INDENTED.findall(rest) + CODE.findall(INDENTED.sub("", rest))
    # Objects are called by the campaign, and a release may have another name.
    return [each.replace("<campaign>", CAMPAIGN).replace("<release>", "other") for each in found]


def found(pattern: str) -> list[tuple[str, ...]]:
    """Page and groups of each match in the code of the pages."""
    each_code = ((page, each) for page, text in TEXTS.items() for each in code(text))
    return sorted({(page, *match.groups()) for page, each in each_code for match in re.finditer(pattern, each)})


@cache
def guides() -> Objects:
    """The objects of the release that the guides install, with every part that they name."""
    values = values_of(INSTALL)
    for path, value in PARTS.items():
        values = merged(values, path, value)
    given = values
    for path, value in SECRETS.items():
        given = merged(given, path, value)
    return [*render(values, release="other"), *render(given, release="other")]


def names(kind: str) -> set[str]:
    return {entry["metadata"]["name"] for entry in guides() if entry["kind"] == kind}


def test_every_object_that_a_page_names_is_one_of_the_release() -> None:
    named = found(rf"\b({'|'.join(KINDS)})[/ ]((?:{CAMPAIGN}|other)-[a-z-]+)")
    assert len(named) > 8
    assert [each for each in named if each[2] not in names(KINDS[each[1]])] == []
    loose = found(rf"(?<![\w./-])({CAMPAIGN}-[a-z][a-z-]*[a-z])\b(?!-)")
    assert len(loose) > 6
    every = {entry["metadata"]["name"] for entry in guides()}
    assert [each for each in loose if each[1] not in every] == []


def test_every_address_and_label_of_a_page_is_one_of_the_release() -> None:
    addresses = found(r"http://([a-z-]+)\.growth\.svc:(\d+)")
    assert addresses
    services = {entry["metadata"]["name"]: entry["spec"] for entry in guides() if entry["kind"] == "Service"}
    for page, name, port in addresses:
        assert int(port) in {each["port"] for each in services[name]["ports"]}, page
    labels = [pod["metadata"]["labels"] for entry in guides() for pod in pods(entry)]
    selected = found(r"kubectl [^`\n]*(?:-l|--selector) ([\w./-]+)=([a-z-]+)")
    assert len(selected) > 3
    assert [each for each in selected if not any(own.get(each[1]) == each[2] for own in labels)] == []


def keys(value: Any) -> Iterator[tuple[str, str]]:
    """Secret and key of everything that pods read, below a value of an object."""
    if isinstance(value, list):
        for entry in value:
            yield from keys(entry)
    elif isinstance(value, dict):
        if read := value.get("secretKeyRef"):
            yield read["name"], read["key"]
        if "secretName" in value:
            yield from ((value["secretName"], item["key"]) for item in value.get("items", []))
        for entry in value.values():
            yield from keys(entry)


def test_a_secret_that_a_guide_makes_has_the_keys_that_the_pods_read() -> None:
    made = {
        (name, key)
        for _, name, given in found(r"kubectl [^\n]*create secret generic (\S+)([^\n]*)")
        for key in re.findall(r"--from-(?:literal|file)=(\w+)", given)
    }
    assert made == {each for each in keys(guides()) if each[0] in ("redis", "callers", "ledger-redis")}


def test_the_printed_line_writes_the_dashboard_of_the_label_that_the_guide_names(kubectl: str, tmp_path: Path) -> None:
    [(_, name, way)] = found(r"get configmap (\S+) -o (jsonpath=\S+) >")
    [board] = [
        entry for entry in render(values_of(INSTALL) | {"checks": {"crds": False}}) if entry["kind"] == "ConfigMap"
    ]
    assert (board["metadata"]["name"], board["metadata"]["labels"]["grafana_dashboard"]) == (name, "1")
    (tmp_path / "map.json").write_text(json.dumps(board))
    printed = subprocess.run(
        [kubectl, "label", "--local", "-f", tmp_path / "map.json", "printed=1", "-o", *shlex.split(way)],
        capture_output=True,
        text=True,
        env={"HOME": str(tmp_path)},
    )
    assert json.loads(printed.stdout) == json.loads(*board["data"].values())
    # A board that is imported by hand has no other source of data than the one that its reader chooses.
    assert "${datasource}" in printed.stdout


def test_every_value_that_a_page_names_is_one_of_the_chart() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    dotted = found(r"^([a-z]\w*(?:\.[a-zA-Z]\w*)+)(?:[=:].*)?$")
    files = re.compile(r"\.(json|db)$")
    named = [each for each in dotted if each[1].split(".")[0] in schema["properties"] and not files.search(each[1])]
    assert len(named) > 60
    unknown = []
    for page, path in named:
        at = schema
        for part in path.split("."):
            below = at.get("properties", {})
            if part not in below and not at.get("additionalProperties", not below and at.get("type") == "object"):
                unknown.append((page, path))
                break
            at = below.get(part, {})
    assert unknown == []


def test_every_folder_of_kustomize_and_the_printed_values_are_those_of_the_repository() -> None:
    folders = {path for _, path in found(r"kubectl [^\n]*-k (\w+/\w+/\w+)")}
    assert folders == {"k8s/overlays/dev", "k8s/overlays/production"}
    assert all((ROOT / path / "kustomization.yaml").is_file() for path in folders)
    guide = code(TEXTS["docs/how-to/install-on-a-cluster.md"])
    [printed] = [yaml.safe_load(each) for each in guide if each.lstrip().startswith(f"campaign: {CAMPAIGN}")]
    assert printed == values_of(INSTALL)


def test_the_chart_renders_with_the_values_of_every_printed_line_of_helm(helm: str) -> None:
    lines = [words for block in blocks() for words in commands(shell_of(block)) if words[0] == "helm"]
    mine = [words for words in lines if words[1] in ("install", "upgrade", "template") and "helm/shadowprice" in words]
    assert len(mine) > 3
    for words in mine:
        given = [each for at, each in enumerate(words) if words[at - 1].startswith("--set") or each.startswith("--set")]
        given = [each.replace("…", "0" * 64) for each in given]
        done = subprocess.run(
            [
                *(helm, "template", words[2], "helm/shadowprice", "--namespace", NAMESPACE, "--values", str(INSTALL)),
                *("--set", "checks.crds=false", *given),
            ],
            capture_output=True,
            text=True,
            cwd=ROOT,
        )
        assert done.returncode == 0, f"{words}: {done.stderr}"
