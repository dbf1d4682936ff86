"""The chart fails where the API server would drop the token of a Ray cluster; read by Helm from a server's CRDs."""

import copy
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from api_server import ApiServer, serving
from rendering import CHART, NAMESPACE, RELEASE, definition, drop_property, merged, values_of

Template = Callable[..., subprocess.CompletedProcess[str]]
PLACES = {
    "rayclusters.ray.io": ("spec", "authOptions"),
    "rayjobs.ray.io": ("spec", "rayClusterSpec", "authOptions"),
}
USES = ("rayJob", "rayCluster", "steps")


@pytest.fixture
def server(crds: Path) -> ApiServer:
    """An API server with KubeRay's custom resource definitions."""
    made = ApiServer(crds)
    for kind in ("RayCluster", "RayJob"):
        crd = copy.deepcopy(definition(crds, "ray.io", kind))
        made.installed[crd["metadata"]["name"]] = crd
    return made


@pytest.fixture
def template(server: ApiServer, helm: str, tmp_path: Path) -> Template:
    """``helm template --dry-run=server`` with one of the chart's uses of Ray."""

    def run(use: str = "steps", **changes: Any) -> subprocess.CompletedProcess[str]:
        values = values_of(CHART / "ci" / "minimal-values.yaml")
        for path, value in {"checks.crds": True, f"training.{use}.enabled": True, **changes}.items():
            values = merged(values, path, value)
        file = tmp_path / "values.yaml"
        file.write_text(yaml.safe_dump(values))
        with serving(server, tmp_path) as config:
            command = [helm, "template", RELEASE, str(CHART), "--namespace", NAMESPACE, "--values", str(file)]
            return subprocess.run(
                [*command, "--dry-run=server", "--validate"],
                env={**os.environ, "KUBECONFIG": str(config), "HOME": str(tmp_path)},
                capture_output=True,
                text=True,
                check=False,
            )

    return run


def drop_auth(crd: dict[str, Any]) -> None:
    """Remove ``authOptions`` from the version that the chart writes, as KubeRay before 1.5 has it."""
    [found] = [each for each in crd["spec"]["versions"] if each["name"] == "v1"]
    drop_property(found["schema"]["openAPIV3Schema"], *PLACES[crd["metadata"]["name"]])


@pytest.mark.parametrize("use", USES)
def test_crds_with_the_field_are_taken(use: str, template: Template) -> None:
    done = template(use)
    assert done.returncode == 0, done.stderr
    assert "mode: token" in done.stdout


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", PLACES)
def test_a_crd_without_the_field_fails_and_says_what_to_do(
    use: str, name: str, template: Template, server: ApiServer
) -> None:
    drop_auth(server.installed[name])
    done = template(use)
    assert done.returncode != 0
    assert f"training.ray.auth: the CRD {name} (version v1) has no authOptions" in done.stderr
    assert "KubeRay's CRDs and operator to 1.5" in done.stderr
    assert "training.ray.auth=disabled" in done.stderr


def test_a_version_that_is_stored_without_the_field_fails_too(template: Template, server: ApiServer) -> None:
    crd = server.installed["rayclusters.ray.io"]
    for version in crd["spec"]["versions"]:
        version["storage"] = version["name"] == "v1alpha1"
    done = template()
    assert done.returncode != 0
    assert "rayclusters.ray.io (version v1alpha1)" in done.stderr


def test_a_cluster_without_a_token_is_an_explicit_choice(template: Template, server: ApiServer) -> None:
    drop_auth(server.installed["rayclusters.ray.io"])
    done = template(**{"training.ray.auth": "disabled"})
    assert done.returncode == 0, done.stderr
    assert "mode: token" not in done.stdout


def test_without_ray_the_crds_are_not_read(template: Template, server: ApiServer) -> None:
    server.forbidden = True
    done = template(**{"training.steps.enabled": False})
    assert done.returncode == 0, done.stderr


def test_crds_that_may_not_be_read_fail_unless_the_check_is_turned_off(template: Template, server: ApiServer) -> None:
    server.forbidden = True
    done = template()
    assert done.returncode != 0
    assert "forbidden" in done.stderr
    assert template(**{"checks.crds": False}).returncode == 0
