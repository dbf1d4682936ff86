"""Statement of how images and chart of a release were made: an in-toto statement with SLSA's provenance, version 1."""

import hashlib
import os
import re
import subprocess
import tempfile
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import machine
from build import ROLES, ROOT, CannotBuild, revision
from push import push_image

LOCKS = ("images/requirements.lock", "images/tools.lock")
GUIDE = "https://github.com/shadowprice/shadowprice/blob/main/docs/how-to/release.md"
"""Describes what a release is built from: SLSA's type of the build."""


@dataclass(frozen=True)
class Made:
    """A thing in a registry.

    name    without tag and digest
    digest  of its manifest, sha256:…
    """

    name: str
    digest: str

    def __str__(self) -> str:
        return f"{self.name}@{self.digest}"

    @classmethod
    def parse(cls, reference: str) -> Self:
        """Read ``name@digest``."""
        name, _, digest = reference.partition("@")
        return cls(name, digest)

    @classmethod
    def pushed(cls, role: str, version: str, registry: str, plain_http: bool) -> Self:
        """Push the image of a role."""
        name = f"shadowprice/{role}"
        target = f"{registry}/{name}"
        return cls(target, push_image(f"{name}:{version}", f"{target}:{version}", tls(plain_http)))


def statement(version: str, made: Sequence[Made], *, started: datetime, base: str = "") -> dict[str, Any]:
    """Return the statement about what was made from the commit that is checked out.

    Args:
        version: of the release.
        made: images and chart; each is a subject.
        started: when the build began.
        base: image that the images run on; the default of the Dockerfiles where empty.
    """
    commit = revision()
    base = base or re.findall(r"^ARG BASE=(.+)$", (ROOT / "images" / "serving" / "Dockerfile").read_text(), re.M)[0]
    parts = [ROOT / "build" / f"{role}.cdx.json" for role in ROLES]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": each.name, "digest": {"sha256": each.digest.removeprefix("sha256:")}} for each in made],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": GUIDE,
                "externalParameters": {"version": version, "ref": f"refs/tags/v{version}", "base": base},
                "resolvedDependencies": [
                    {"name": "source", "digest": {"gitCommit": commit}},
                    *({"name": name, "digest": {"sha256": digest(ROOT / name)}} for name in LOCKS),
                ],
            },
            "runDetails": {
                "builder": {"id": f"{GUIDE}#by-hand"},
                "metadata": {
                    "invocationId": uuid.uuid4().hex,
                    "startedOn": f"{started:%Y-%m-%dT%H:%M:%SZ}",
                    "finishedOn": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
                },
                "byproducts": [
                    {"name": path.name, "digest": {"sha256": digest(path)}} for path in parts if path.exists()
                ],
            },
        },
    }


NAMESPACE = "shadowprice-provenance"
"""Purpose of a signature; one that was made for another does not verify."""


def sign(path: Path, key: str) -> Path:
    """Sign a statement with a private key of OpenSSH and return the place of the signature, ``<path>.sig``.

    Raises:
        CannotBuild: ssh-keygen is missing or does not take the key.
    """
    signature = path.with_name(f"{path.name}.sig")
    signature.unlink(missing_ok=True)
    command = ["ssh-keygen", "-Y", "sign", "-q", "-f", key, "-n", NAMESPACE, str(path)]
    try:
        done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    except FileNotFoundError as error:
        raise CannotBuild("ssh-keygen signs a release; install openssh-client") from error
    if done.returncode:
        raise CannotBuild(f"ssh-keygen could not sign {path} with {key}; its last lines above say why")
    return signature


def push_statement(path: Path, target: str, plain_http: bool, signature: Path | None = None) -> Made:
    """Push a statement as ``/provenance.json``, and its signature beside it, of an image without a system.

    Raises:
        CannotBuild: buildah cannot make or push it.
    """
    with tempfile.TemporaryDirectory() as scratch:
        environment = os.environ | machine.settings(os.environ, Path(scratch))

        def buildah(*words: str) -> str:
            done = subprocess.run(["buildah", *words], env=environment, stdout=subprocess.PIPE, text=True, check=False)
            if done.returncode:
                raise CannotBuild(f"buildah could not store {path}; its last lines above say why")
            return done.stdout.strip()

        container = buildah("from", "scratch")
        try:
            buildah("copy", "--quiet", container, str(path), "/provenance.json")
            if signature is not None:
                buildah("copy", "--quiet", container, str(signature), "/provenance.json.sig")
            buildah("commit", "--quiet", container, target)
        finally:
            buildah("rm", container)
    return Made(target.rpartition(":")[0], push_image(target, target, tls(plain_http)))


def tls(plain_http: bool) -> list[str]:
    """Return the option of ``buildah push`` for a registry with or without TLS."""
    return [f"--tls-verify={not plain_http}".lower()]


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
