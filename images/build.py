"""``python3.11 images/build.py``: build the container images with buildah, or with docker where there is none.

Standard library only. Where pip is told to look for packages (index, folders, certificates) is handed to the build as a
secret, which is in no layer; folders of this machine are mounted for the time of the build.
"""

import argparse  # `make images` runs this without any package
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import machine

ROOT = Path(__file__).resolve().parents[1]
ROLES = tuple(sorted(path.parent.name for path in (ROOT / "images").glob("*/Dockerfile")))
CERTIFICATES = "/run/secrets/certificates"
PARTS = "/opt/shadowprice/sbom.cdx.json"


class CannotBuild(Exception):
    """Said in one line."""


def main() -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(description="Build the container images.")
    parser.add_argument("roles", nargs="*", metavar="ROLE", help=f"of {', '.join(ROLES)}; all by default")
    parser.add_argument("--repository", default="shadowprice", help="an image is <repository>/<role>:<version>")
    parser.add_argument("--base", default="", help="image to run on: Python 3.11 on Debian, by digest where you can")
    parser.add_argument("--builder", default="", help="image to build on: the same with a C compiler")
    parser.add_argument("--tool", choices=("buildah", "docker"), help="by default whichever is there")
    parser.add_argument("--parts", type=Path, default=ROOT / "build", help="folder for the list of parts of each image")
    given = parser.parse_args()
    try:
        if unknown := sorted(set(given.roles) - set(ROLES)):
            raise CannotBuild(f"no image {', '.join(unknown)}; there are {', '.join(ROLES)}")
        tool = given.tool or found_tool()
        for role in given.roles or ROLES:
            image = build(tool, role, f"{given.repository}/{role}:{version()}", given.base, given.builder)
            copy_parts(tool, image, given.parts / f"{role}.cdx.json")
            print(image, flush=True)
    except CannotBuild as error:
        print(f"make images: {error}", file=sys.stderr)
        return 1
    return 0


def found_tool() -> str:
    """buildah, or a docker whose daemon answers and that has BuildKit."""
    if shutil.which("buildah"):
        return "buildah"
    if shutil.which("docker"):
        if subprocess.run(["docker", "info"], capture_output=True, check=False).returncode:
            raise CannotBuild("docker is installed and its daemon does not answer; start it, or install buildah")
        if subprocess.run(["docker", "buildx", "version"], capture_output=True, check=False).returncode:
            raise CannotBuild("docker lacks buildx, which secrets of a build need; install it, or buildah")
        return "docker"
    raise CannotBuild("neither buildah nor docker is installed; install one of them")


def version() -> str:
    """Version of the package."""
    found = re.search(r'__version__ = "(.+)"', (ROOT / "shadowprice" / "__init__.py").read_text())
    assert found is not None
    return found[1]


def build(tool: str, role: str, tag: str, base: str, builder: str) -> str:
    """Build one image and return its name.

    Raises:
        CannotBuild: the build failed; what it printed is above.
    """
    settings = index_settings(pip_settings(), os.environ)
    folders = local_folders(settings)
    bundle = Path(settings.get("PIP_CERT") or "/etc/ssl/certs/ca-certificates.crt")
    with tempfile.TemporaryDirectory() as scratch:
        index = Path(scratch, "index")
        index.touch(mode=0o600)
        if bundle.is_file():
            settings |= dict.fromkeys(("PIP_CERT", "SSL_CERT_FILE"), CERTIFICATES)
        index.write_text("".join(f"export {name}={shlex.quote(value)}\n" for name, value in settings.items()))
        secrets = [f"id=index,src={index}"]
        if bundle.is_file():
            secrets.append(f"id=certificates,src={bundle}")
        command = [tool, "build", "--file", str(ROOT / "images" / role / "Dockerfile"), "--tag", tag]
        arguments = {"VERSION": version(), "REVISION": revision(), "BASE": base, "BUILDER": builder}
        command += [part for name, value in arguments.items() if value for part in ("--build-arg", f"{name}={value}")]
        command += [part for secret in secrets for part in ("--secret", secret)]
        environment = dict(os.environ)
        if tool == "buildah":
            command += ["--layers", "--network", "host"]
            command += [part for folder in folders for part in ("--volume", f"{folder}:{folder}:ro")]
            environment |= machine.settings(environment, Path(scratch))
        elif folders:
            raise CannotBuild(f"docker cannot read packages from {', '.join(folders)} in a build; install buildah")
        if subprocess.run([*command, str(ROOT)], env=environment, stdout=sys.stderr, check=False).returncode:
            raise CannotBuild(f"{tool} could not build {tag}; its last lines above say why")
    return tag


def copy_parts(tool: str, image: str, target: Path) -> None:
    """Copy the list of parts out of an image.

    Raises:
        CannotBuild: the tool does not give it; what it printed is above.
    """

    def told(*words: str) -> bytes:
        done = subprocess.run([tool, *words], env=environment, stdout=subprocess.PIPE, check=False)
        if done.returncode:
            raise CannotBuild(f"{tool} gives no list of parts of {image}; its last lines above say why")
        return done.stdout

    environment = dict(os.environ)
    with tempfile.TemporaryDirectory() as scratch:
        if tool == "buildah":
            environment |= machine.settings(environment, Path(scratch))
            container = told("from", "--pull-never", image).decode().strip()
            try:
                parts = told("run", "--isolation=chroot", container, "--", "cat", PARTS)
            finally:
                told("rm", container)
        else:
            parts = told("run", "--rm", "--network=none", image, "cat", PARTS)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(parts)


def pip_settings() -> dict[str, str]:
    """Configuration of pip on this machine by name of the option; files first, then the environment."""
    done = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False)
    found: dict[str, str] = {}
    lines = sorted(done.stdout.splitlines(), key=lambda line: line.startswith(":env:"))
    for line in lines:
        name, _, value = line.partition("=")
        found[name.rpartition(".")[2]] = value.strip("'")
    return found


def index_settings(pip: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Variables that tell pip and uv the addresses of packages."""
    pairs = {"index-url": "INDEX_URL", "extra-index-url": "EXTRA_INDEX_URL", "find-links": "FIND_LINKS"}
    told = {}
    for option, name in pairs.items():
        for tool in ("PIP", "UV"):
            # uv wants one separator, as pip's configuration has spaces or lines.
            value = environment.get(f"{tool}_{name}") or pip.get(option, "")
            if value:
                told[f"{tool}_{name}"] = (" " if tool == "PIP" or "INDEX" in name else ",").join(value.split())
    if told.get("UV_EXTRA_INDEX_URL"):
        # As pip does: the newest of all indexes, not the first index that knows the name.
        told["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    if pip.get("cert"):
        told["PIP_CERT"] = pip["cert"]
    return told


def local_folders(settings: Mapping[str, str]) -> list[str]:
    """Folders of this machine among the places where packages are."""
    found = set()
    for name, value in settings.items():
        if name == "PIP_CERT":
            continue
        for place in re.split(r"[\s,]+", value):
            path = urlsplit(place).path if place.startswith("file://") else place
            if path.startswith("/") and Path(path).is_dir():
                # An index in a folder points at files beside itself.
                found.add(path.removesuffix("/simple"))
    return sorted(found)


def revision() -> str:
    """The commit, or ``unknown`` outside a checkout."""
    done = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
