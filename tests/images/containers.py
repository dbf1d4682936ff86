"""Pods of the rendered chart run by ``podman play kube``, on a network and volumes of their own."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import time
import uuid
from base64 import b64decode
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
import yaml
from rendering import CHART, NAMESPACE, merged, pods, render, values_of

from shadowprice.price import PriceRecord

ROOT = Path(__file__).resolve().parents[2]
BASE = "localhost/debian-python:3.11"
BUILDER = "localhost/debian-python:3.11-build"
USER = 10001
GRPC = 8081
READY_SECONDS = 180.0


def command(*words: str, check: bool = True, **environment: str) -> str:
    """Run a program and give what it prints; its errors are part of the failure."""
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=os.environ | environment)
    if check and done.returncode:
        raise AssertionError(f"{' '.join(words[:4])}: {done.stderr[-3000:]}{done.stdout[-1000:]}")
    return done.stdout


def price_of(workspace: Path) -> PriceRecord:
    """The one price of a workspace."""
    [path] = sorted((workspace / "prices" / "world").glob("*.json"))
    return PriceRecord.from_json(path.read_text())


class Container:
    """The container of a pod that plays here."""

    def __init__(self, pod: str, container: str) -> None:
        self.pod, self.name = pod, f"{pod}-{container}"

    @property
    def state(self) -> dict[str, Any]:
        """What podman knows of it."""
        return json.loads(command("podman", "inspect", self.name))[0]

    @property
    def address(self) -> str:
        """Its pod's address on the network of the test."""
        infra = json.loads(command("podman", "pod", "inspect", self.pod))["InfraContainerID"]
        networks = json.loads(command("podman", "inspect", infra))[0]["NetworkSettings"]["Networks"]
        return next(network["IPAddress"] for network in networks.values())

    def logs(self) -> str:
        """What it printed, both streams."""
        done = subprocess.run(["podman", "logs", self.name], capture_output=True, text=True, check=True)
        return done.stdout + done.stderr

    def inside(self, script: str) -> subprocess.CompletedProcess[str]:
        """A shell script run in it, as the user it runs as."""
        return subprocess.run(["podman", "exec", self.name, "sh", "-c", script], capture_output=True, text=True)

    def wait_ready(self, port: int, path: str) -> Container:
        """Return when its readiness probe's path answers 200."""
        self.url = f"http://{self.address}:{port}"
        until = time.monotonic() + READY_SECONDS
        while time.monotonic() < until:
            try:
                if httpx.get(self.url + path, timeout=2).status_code == 200:
                    return self
            except httpx.HTTPError:
                pass
            assert self.state["State"]["Running"], self.logs()[-3000:]
            time.sleep(0.5)
        raise AssertionError(f"{self.name} is not ready: {self.logs()[-3000:]}")

    def wait_done(self) -> str:
        """Return what it printed when it has ended well."""
        until = time.monotonic() + READY_SECONDS
        while self.state["State"]["Running"]:
            assert time.monotonic() < until, self.logs()[-3000:]
            time.sleep(0.5)
        assert self.state["State"]["ExitCode"] == 0, self.logs()[-3000:]
        return self.logs()


class Pods:
    """The pods of the chart with one node's values, as rendered but for four things that a cluster would add.

    - an InferenceService's predictor is the pod KServe would make of it, a CronJob's template the pod of one run;
    - names of Services are host names of the pods' addresses;
    - a claim is a volume that belongs to the user the pods run as, as fsGroup would have it;
    - a Secret's files are in a volume too, readable for that user's group.
    """

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        values = merged(values_of(CHART / "ci" / "one-node-values.yaml"), "campaign", "world")
        self.objects = render(merged(values, "predictor.grpc", {"enabled": True, "port": GRPC}))
        self._mark = uuid.uuid4().hex[:8]
        self._network = f"shadowprice-{self._mark}"
        self._started: list[Container] = []
        self._volumes: list[str] = []
        self._hosts: dict[str, str] = {}

    def __enter__(self) -> Pods:
        command("podman", "network", "create", self._network)
        for claim in (entry for entry in self.objects if entry["kind"] == "PersistentVolumeClaim"):
            name = claim["metadata"]["name"]
            folder = self._volume(name)
            if name.endswith("-workspace"):
                command("cp", "-a", f"{self._workspace}/.", str(folder))
                _begin_now(folder / "campaign.json")
                self.workspace = folder
            command("chown", "-R", f"{USER}:{USER}", str(folder))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for container in reversed(self._started):
            command("podman", "pod", "rm", "--force", "--time", "5", container.pod, check=False)
        for volume in self._volumes:
            command("podman", "volume", "rm", "--force", volume, check=False)
        command("podman", "network", "rm", "--force", self._network, check=False)

    def template(self, kind: str, name: str) -> dict[str, Any]:
        """The pod template of a rendered object."""
        [entry] = [e for e in self.objects if (e["kind"], e["metadata"]["name"]) == (kind, name)]
        [found] = pods(entry)
        return found

    def start(self, kind: str, name: str, *, replace: dict[str, str] | None = None) -> Container:
        """Play the pod of a rendered object."""
        spec = copy.deepcopy(self.template(kind, name)["spec"])
        allowed = {"containers", "volumes", "securityContext", "restartPolicy", "terminationGracePeriodSeconds"}
        spec = {key: value for key, value in spec.items() if key in allowed}
        spec["restartPolicy"] = "Always" if kind == "Deployment" else "Never"
        spec["hostAliases"] = [{"ip": ip, "hostnames": [host]} for host, ip in self._hosts.items()]
        [container] = spec["containers"]
        container["imagePullPolicy"] = "Never"
        # Podman would take the same ports of this machine; a pod is reached at its own address.
        container.pop("ports", None)
        container["image"] = f"localhost/{container['image']}"
        container["args"] = [_replaced(word, replace or {}) for word in container["args"]]
        for volume in spec["volumes"]:
            if claim := volume.get("persistentVolumeClaim"):
                claim["claimName"] = self._own(claim["claimName"])
            elif secret := volume.pop("secret", None):
                volume["persistentVolumeClaim"] = {"claimName": self._files_of(secret)}
        pod = f"{name}-{self._mark}"
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod, "labels": {"app": pod}}, "spec": spec}
        started = Container(pod, container["name"])
        self._started.append(started)
        played = subprocess.run(
            ["podman", "play", "kube", "--network", self._network, "-"],
            input=yaml.safe_dump(manifest),
            text=True,
            capture_output=True,
            check=False,
        )
        assert played.returncode == 0, played.stderr[-3000:]
        service = {"Deployment": name, "InferenceService": f"{name}-predictor"}.get(kind)
        if service:
            self._hosts[f"{service}.{NAMESPACE}.svc"] = started.address
        return started

    def bearer(self, role: str) -> dict[str, str]:
        """The header of a caller with the token of a role."""
        [secret] = [entry for entry in self.objects if entry["kind"] == "Secret"]
        return {"authorization": f"Bearer {b64decode(secret['data'][role]).decode()}"}

    def _files_of(self, volume: dict[str, Any]) -> str:
        """Name of a volume with the files of a Secret that a pod mounts."""
        [secret] = [e for e in self.objects if (e["kind"], e["metadata"]["name"]) == ("Secret", volume["secretName"])]
        name = f"{volume['secretName']}-{uuid.uuid4().hex[:8]}"
        folder = self._volume(name)
        for item in volume["items"]:
            path = folder / item["path"]
            path.write_bytes(b64decode(secret["data"][item["key"]]))
            os.chown(path, 0, USER)
            path.chmod(volume["defaultMode"])
        return self._own(name)

    def _volume(self, claim: str) -> Path:
        """Make a volume; gives its folder."""
        self._volumes.append(self._own(claim))
        command("podman", "volume", "create", self._own(claim))
        return Path(json.loads(command("podman", "volume", "inspect", self._own(claim)))[0]["Mountpoint"])

    def _own(self, claim: str) -> str:
        return f"{claim}-{self._mark}"


def _begin_now(campaign: Path) -> None:
    """The generated campaign's day is a fixed one; here it began an hour ago."""
    terms = json.loads(campaign.read_text())
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    campaign.write_text(json.dumps(terms | {"starts_at": (now - timedelta(hours=1)).isoformat()}))


def _replaced(word: str, replace: dict[str, str]) -> str:
    for old, new in replace.items():
        word = word.replace(old, new)
    return word
