"""A release: version, changelog and tag of a checkout, then images, chart and their provenance in a registry."""

import hashlib
import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
import release
from build import ROLES, CannotBuild, revision, version
from containers import ROOT, command
from provenance import NAMESPACE
from release import numbers, prepare
from rendering import render, values_of
from upgrades import chart_of, kept, refused

MANIFESTS = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"
MINIMAL = ROOT / "helm" / "shadowprice" / "ci" / "minimal-values.yaml"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone of the newest commit."""
    for name in ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"):
        monkeypatch.setenv(name, "release@example.org")
    place = tmp_path / "checkout"
    subprocess.run(["git", "clone", "--quiet", "--depth=1", f"file://{ROOT}", str(place)], check=True)
    changelog = place / "CHANGELOG.md"
    changelog.write_text(changelog.read_text().replace("## [Unreleased]\n", "## [Unreleased]\n\n- A change.\n", 1))
    git(place, "commit", "--all", "--quiet", "--message", "Describe a change")
    return place


def git(place: Path, *words: str) -> str:
    return command("git", "-C", str(place), *words)


def test_a_release_names_its_version_everywhere_and_is_tagged_once(checkout: Path) -> None:
    prepare("7.8.9", root=checkout)
    assert '__version__ = "7.8.9"' in (checkout / "shadowprice" / "__init__.py").read_text()
    chart = (checkout / "helm" / "shadowprice" / "Chart.yaml").read_text()
    assert "\nversion: 7.8.9\n" in chart
    assert 'appVersion: "7.8.9"' in chart
    assert "newTag: 7.8.9}" in (checkout / "k8s" / "overlays" / "production" / "kustomization.yaml").read_text()
    manifests = (checkout / "k8s" / "base" / "shadowprice.yaml").read_text()
    assert "shadowprice/serving:7.8.9" in manifests
    assert f":{version()}\n" not in manifests
    changelog = (checkout / "CHANGELOG.md").read_text()
    assert f"## [Unreleased]\n\n## [7.8.9] - {datetime.now(UTC):%Y}" in changelog
    assert git(checkout, "status", "--porcelain") == ""
    assert git(checkout, "log", "-1", "--format=%s %D").startswith("Release 7.8.9 HEAD")
    # Again, as after a push that failed: nothing changes.
    before = git(checkout, "rev-parse", "HEAD")
    prepare("7.8.9", root=checkout)
    assert git(checkout, "rev-parse", "HEAD") == before
    (checkout / "README.md").write_text("changed")
    with pytest.raises(CannotBuild, match="not committed"):
        prepare("8.0.0", root=checkout)
    git(checkout, "commit", "--all", "--quiet", "--message", "Change a page")
    with pytest.raises(CannotBuild, match=r"7\.8\.8 is not after 7\.8\.9"):
        prepare("7.8.8", root=checkout)
    with pytest.raises(CannotBuild, match="nothing under"):
        prepare("7.9.0", root=checkout)
    with pytest.raises(CannotBuild, match="three numbers"):
        prepare("v8", root=checkout)
    assert numbers("v7.10.0") > numbers("v7.9.0")


def test_the_chart_of_a_tag_is_compared_with_the_one_after_it(checkout: Path, tmp_path: Path) -> None:
    git(checkout, "tag", "v1.0.0")
    before = chart_of("v1.0.0", tmp_path / "before", checkout)
    values = values_of(MINIMAL)
    assert refused(kept(render(values, chart=before)), kept(render(values, revision=2))) == []
    defaults = before / "values.yaml"
    defaults.write_text(defaults.read_text().replace("[ReadWriteOnce]", "[ReadWriteMany]"))
    [told] = refused(kept(render(values, revision=2)), kept(render(values, chart=before)))
    assert told == "PersistentVolumeClaim/spring-ledger: spec.accessModes changes"


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """A private key, with ``signers`` beside it: whom a reader trusts."""
    path = tmp_path / "key"
    command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path))
    (tmp_path / "signers").write_text(f"release@example.org {path.with_suffix('.pub').read_text()}")
    return path


def test_a_key_signs_the_tag_of_a_release(checkout: Path, key: Path) -> None:
    prepare("7.8.9", root=checkout, key=str(key))
    git(checkout, "config", "gpg.ssh.allowedSignersFile", str(key.with_name("signers")))
    git(checkout, "verify-tag", "v7.8.9")


def verified(folder: Path, signers: Path) -> bool:
    """Whether the signature of a statement is that of a trusted key, as docs/how-to/release.md verifies it."""
    words = ["ssh-keygen", "-Y", "verify", "-f", str(signers), "-I", "release@example.org", "-n", NAMESPACE]
    words += ["-s", str(folder / "provenance.json.sig")]
    told = (folder / "provenance.json").read_bytes()
    return subprocess.run(words, input=told, capture_output=True, check=False).returncode == 0


def test_images_chart_and_a_statement_of_their_provenance_are_pushed(
    registry: str, tmp_path: Path, key: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The images here are empty ones with the names of the release; that they run is tested elsewhere."""
    for role in ROLES:
        container = command("buildah", "from", "scratch").strip()
        command("buildah", "config", "--label", f"role={role}", container)
        command("buildah", "commit", "--quiet", container, f"shadowprice/{role}:9.9.9")
        command("buildah", "rm", container)
    monkeypatch.setattr(release, "ROOT", tmp_path)
    how = {"plain_http": True, "base": "base@sha256:0", "key": str(key)}
    release.push("9.9.9", f"{registry}/made", started=datetime.now(UTC), **how)
    printed = capsys.readouterr().out
    told = json.loads((tmp_path / "build" / "provenance-9.9.9.json").read_text())
    assert told["_type"] == "https://in-toto.io/Statement/v1"
    assert told["predicateType"] == "https://slsa.dev/provenance/v1"
    names = {subject["name"]: subject["digest"]["sha256"] for subject in told["subject"]}
    assert set(names) == {f"{registry}/made/shadowprice/{role}" for role in ROLES} | {
        f"{registry}/made/charts/shadowprice"
    }
    for name, digest in names.items():
        repository = name.removeprefix(f"{registry}/")
        answer = httpx.get(
            f"http://{registry}/v2/{repository}/manifests/sha256:{digest}", headers={"Accept": MANIFESTS}
        )
        assert hashlib.sha256(answer.content).hexdigest() == digest
        assert f"{name}@sha256:{digest}" in printed
    source, *locks = told["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert source["digest"]["gitCommit"] == revision()
    for lock in locks:
        assert lock["digest"]["sha256"] == hashlib.sha256((ROOT / lock["name"]).read_bytes()).hexdigest()
    pins = json.loads((tmp_path / "build" / "release-9.9.9.json").read_text())
    assert pins["images"]["serving"]["digest"] == f"sha256:{names[f'{registry}/made/shadowprice/serving']}"
    images = {
        container["image"]
        for entry in render(values_of(MINIMAL) | pins)
        if entry["kind"] == "Deployment"
        for container in entry["spec"]["template"]["spec"]["containers"]
    }
    assert images == {f"{registry}/made/shadowprice/ledger@sha256:{names[f'{registry}/made/shadowprice/ledger']}"}
    # The statement comes back from the registry as it was written.
    stored = command("buildah", "from", "--tls-verify=false", f"{registry}/made/shadowprice/provenance:9.9.9").strip()
    mounted = Path(command("buildah", "mount", stored).strip())
    assert json.loads((mounted / "provenance.json").read_text()) == told
    assert verified(mounted, key.with_name("signers"))
    (mounted / "provenance.json").write_text(json.dumps(told | {"subject": []}))
    assert not verified(mounted, key.with_name("signers"))
    command("buildah", "rm", stored)
