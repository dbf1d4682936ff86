"""``python images/push.py <registry>``: push the built images and the chart, and print the values that pin them.

What is printed is what ``helm install --set`` takes: repository and digest of every image, as the registry has them.
The images come from where ``make images`` left them, by buildah; the chart goes by Helm 4 to ``<registry>/charts``.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import machine
import typer
from build import ROLES, ROOT, CannotBuild, version
from helm_python import HelmError, RegistryClient, package

from shadowprice.command.options import main_of

CHART = ROOT / "helm" / "shadowprice"


def push(
    registry: Annotated[str, typer.Argument(help="host, or host and path")],
    roles: Annotated[list[str] | None, typer.Argument(help=f"of {', '.join(ROLES)}; all by default")] = None,
    repository: Annotated[str, typer.Option(help="an image is <registry>/<repository>/<role>")] = "shadowprice",
    plain_http: Annotated[bool, typer.Option("--plain-http", help="the registry has no TLS")] = False,
    compression_level: Annotated[
        int | None, typer.Option(help="of the layers; 1 is quick, buildah's own by default")
    ] = None,
) -> int:
    """Push images and chart."""
    try:
        if unknown := sorted(set(roles or ()) - set(ROLES)):
            raise CannotBuild(f"no image {', '.join(unknown)}; there are {', '.join(ROLES)}")
        for role in roles or ROLES:
            name = f"{repository}/{role}"
            options = [f"--tls-verify={not plain_http}".lower()]
            if compression_level is not None:
                options.append(f"--compression-level={compression_level}")
            digest = push_image(f"{name}:{version()}", f"{registry}/{name}:{version()}", options)
            print(f"images.{role}.repository={registry}/{name}")
            print(f"images.{role}.digest={digest}", flush=True)
        print(f"chart {push_chart(registry, plain_http)}")
    except (CannotBuild, HelmError) as error:
        print(f"make push: {error}", file=sys.stderr)
        return 1
    return 0


def push_image(image: str, target: str, options: list[str]) -> str:
    """Push an image of this machine and give the digest of its manifest in the registry.

    Args:
        image, target: names here and there.
        options: of ``buildah push``.

    Raises:
        CannotBuild: it is not here, or the registry does not take it; buildah's last words are above.
    """
    with tempfile.TemporaryDirectory() as scratch:
        digest = Path(scratch, "digest")
        command = ["buildah", "push", "--quiet", "--digestfile", str(digest), *options]
        environment = os.environ | machine.settings(os.environ, Path(scratch))
        done = subprocess.run([*command, image, f"docker://{target}"], env=environment, check=False)
        if done.returncode:
            raise CannotBuild(f"buildah could not push {image} to {target}; its last lines above say why")
        return digest.read_text().strip()


def push_chart(registry: str, plain_http: bool) -> str:
    """Package the chart, push it to ``<registry>/charts`` and give its reference by digest."""
    remote = f"oci://{registry}/charts"
    with tempfile.TemporaryDirectory() as scratch, RegistryClient(plain_http=plain_http) as client:
        archive = package(CHART, destination=scratch)
        client.push(archive, remote, plain_http=plain_http)
        found = client.resolve(f"{remote}/{Path(archive).stem.rpartition('-')[0]}:{version()}")
    return f"{remote}/shadowprice@{found['digest']}"


main = main_of(push, "python images/push.py")

if __name__ == "__main__":
    sys.exit(main())
