"""``python images/release.py <version> <registry>``: tag a release, push images and chart, and say how they were made.

The first half writes the version where it belongs, gives the unreleased entries of the changelog a heading, commits and
tags. The second half builds and pushes what the tag holds. After a failure the same command goes on where it stopped.
"""

import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from build import ROLES, ROOT, CannotBuild
from helm_python import HelmError
from provenance import Made, push_statement, sign, statement
from push import push_chart

from shadowprice.command.options import main_of

VERSIONED = {
    "shadowprice/__init__.py": r'(?<=__version__ = ")[^"]+',
    "helm/shadowprice/Chart.yaml": r'(?m)(?<=^version: )\S+|(?<=^appVersion: ")[^"]+',
    "k8s/overlays/production/kustomization.yaml": r"(?<=newTag: )[^}]+",
}
"""Files that hold the version, and the places in them."""
CHECK = ["-m", "pytest", "-q", "tests/chart/test_upgrade.py"]
"""Upgrade from the previous tag."""
VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
UNRELEASED = "## [Unreleased]\n"


def release(
    version: Annotated[str, typer.Argument(help="three numbers, as in 1.4.0")],
    registry: Annotated[str, typer.Argument(help="host, or host and path")],
    base: Annotated[str, typer.Option(help="image to run on, as of make images")] = "",
    builder: Annotated[str, typer.Option(help="image to build on, as of make images")] = "",
    key: Annotated[str, typer.Option(help="private key of OpenSSH that signs the tag and the provenance")] = "",
    plain_http: Annotated[bool, typer.Option("--plain-http", help="the registry has no TLS")] = False,
) -> int:
    """Tag a release, and push its images and chart with their provenance."""
    try:
        prepare(version, check=True, key=key)
        started = datetime.now(UTC)
        run([sys.executable, "images/build.py", "--base", base, "--builder", builder])
        how = {"plain_http": plain_http, "base": base, "key": key}
        push(version, registry, started=started, **how)
    except (CannotBuild, HelmError) as error:
        print(f"make release: {error}", file=sys.stderr)
        return 1
    print(f"publish the tag: git push --follow-tags origin HEAD v{version}")
    return 0


def prepare(version: str, *, root: Path = ROOT, check: bool = False, key: str = "") -> None:
    """Write the version and the changelog, commit and tag; nothing where HEAD has the tag already.

    Args:
        version: of the release, after that of every tag.
        root: of the checkout.
        check: run the tests of an upgrade from the previous tag first.
        key: private key of OpenSSH that signs the tag; an empty one signs nothing.

    Raises:
        CannotBuild: a wrong version, uncommitted changes, an empty changelog, or a failed check; nothing is written.
    """
    if not VERSION.fullmatch(version):
        raise CannotBuild(f"{version!r} is not a version; give three numbers, as in 1.4.0")
    if run(["git", "status", "--porcelain"], root):
        raise CannotBuild("there are changes that are not committed; commit or remove them")
    tag = f"v{version}"
    if tag in run(["git", "tag", "--points-at", "HEAD"], root).split():
        print(f"{tag} is tagged already")
        return
    newest = max((found for each in run(["git", "tag"], root).split() if (found := numbers(each))), default=(0, 0, 0))
    if numbers(tag) <= newest:
        raise CannotBuild(f"{version} is not after {'.'.join(map(str, newest))}, the newest tag")
    changelog = root / "CHANGELOG.md"
    before, _, after = changelog.read_text().partition(UNRELEASED)
    if not after.partition("\n## ")[0].strip():
        raise CannotBuild("CHANGELOG.md has nothing under [Unreleased]; describe the release there")
    if check:
        run([sys.executable, *CHECK], root)
    for name, place in VERSIONED.items():
        path = root / name
        text, places = re.subn(place, version, path.read_text())
        assert places, name
        path.write_text(text)
    changelog.write_text(f"{before}{UNRELEASED}\n## [{version}] - {datetime.now(UTC):%Y-%m-%d}\n{after}")
    run([sys.executable, "-m", "k8s.render"], root)
    run(["git", "commit", "--all", "--quiet", "--message", f"Release {version}"], root)
    signing = ["-c", "gpg.format=ssh", "-c", f"user.signingKey={key}"] if key else []
    run(["git", *signing, "tag", "--sign" if key else "--annotate", tag, "--message", f"Release {version}"], root)
    print(f"{tag} is tagged")


def push(version: str, registry: str, *, plain_http: bool, started: datetime, base: str = "", key: str = "") -> None:
    """Push the images of all roles, the chart and the statement of their provenance, signed where there is a key.

    Prints where each is.

    Writes ``build/release-<version>.json``, the values that pin the images, and ``build/provenance-<version>.json``.

    Raises:
        CannotBuild: the registry does not take an image; HelmError: it does not take the chart.
    """
    made = {role: Made.pushed(role, version, registry, plain_http) for role in ROLES}
    chart = Made.parse(push_chart(registry, plain_http).removeprefix("oci://"))
    folder = ROOT / "build"
    folder.mkdir(exist_ok=True)
    values = {"images": {role: {"repository": each.name, "digest": each.digest} for role, each in made.items()}}
    pins = folder / f"release-{version}.json"
    pins.write_text(json.dumps(values, indent=1))
    path = folder / f"provenance-{version}.json"
    path.write_text(json.dumps(statement(version, [*made.values(), chart], started=started, base=base), indent=1))
    signature = sign(path, key) if key else None
    stored = push_statement(path, f"{registry}/shadowprice/provenance:{version}", plain_http, signature)
    for each in (*made.values(), chart, stored):
        print(each)
    print(f"install with --values {pins.relative_to(ROOT)}")


def numbers(tag: str) -> tuple[int, ...]:
    """Return the numbers of a tag, to compare; empty where it is not that of a release.

    >>> numbers("v1.4.0"), numbers("nightly")
    ((1, 4, 0), ())
    """
    found = VERSION.fullmatch(tag.removeprefix("v"))
    return tuple(map(int, found.groups())) if found else ()


def run(command: list[str], root: Path = ROOT) -> str:
    """Return the output of a command.

    Raises:
        CannotBuild: it failed; the message has the end of what it printed.
    """
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        end = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
        raise CannotBuild(f"{' '.join(command[:4])} failed:\n{end}")
    return done.stdout


main = main_of(release, "python images/release.py")

if __name__ == "__main__":
    sys.exit(main())
