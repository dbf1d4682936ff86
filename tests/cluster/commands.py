"""Command lines that speak to an API server."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import yaml

Done = subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class Cluster:
    """Command lines that speak to an API server.

    space   namespace of the tests
    config  kubeconfig
    bare    groups whose kinds it lacked before the tests
    name    release that is installed in the namespace
    """

    helm_path: str
    home: Path
    space: str
    config: str
    bare: tuple[str, ...] = ()
    name: str = ""

    def do(self, *words: str, text: str | None = None) -> Done:
        environment = {**os.environ, "KUBECONFIG": self.config, "HOME": str(self.home)}
        return subprocess.run(words, env=environment, input=text, capture_output=True, text=True, check=False)

    def kubectl(self, *words: str, text: str | None = None) -> Done:
        return self.do("kubectl", "--namespace", self.space, *words, text=text)

    def helm(self, *words: str) -> Done:
        return self.do(self.helm_path, "--namespace", self.space, *words)

    def ok(self, done: Done) -> str:
        assert done.returncode == 0, done.stderr
        return done.stdout

    def make(self, kind: str, name: str, **more: object) -> None:
        """Apply an object of the core group."""
        entry = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **more}
        self.ok(self.kubectl("apply", "-f", "-", text=yaml.safe_dump(entry)))
