"""Objects of a cluster, read by kubectl with its own configuration; nothing is changed."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Object = Mapping[str, Any]
ABSENT = "the server doesn't have a resource type"
SECONDS = 15
OWN = "app.kubernetes.io/name=shadowprice"
"""Label of every object of the chart."""


class Unreadable(Exception):
    """Error for objects that kubectl could not read, with its reason; never leaves the check that asked."""


@dataclass(frozen=True)
class Kubectl:
    """Reader of one namespace."""

    namespace: str

    def space(self) -> Object:
        """Return the namespace itself.

        Raises:
            Unreadable: there is none of that name, no cluster, no kubectl or no right.
        """
        found: Object = json.loads(self._get("namespace", self.namespace))
        return found

    def objects(self, kind: str, selector: str = OWN, everywhere: bool = False) -> Sequence[Object]:
        """Return the objects of a kind with these labels; none where the API server has no such kind.

        Raises:
            Unreadable: no right to read them, or no answer.
        """
        scope = ["--all-namespaces"] if everywhere else ["--namespace", self.namespace]
        return self._list(kind, *scope, *([f"--selector={selector}"] if selector else []))

    def definitions(self, *names: str) -> Sequence[Object]:
        """Return the custom resource definitions of these names that there are.

        Raises:
            Unreadable: no right to read them, or no answer.
        """
        return self._list("customresourcedefinitions", *names, "--ignore-not-found")

    def _list(self, *words: str) -> Sequence[Object]:
        try:
            # Nothing is printed where no name is found.
            found = json.loads(self._get(*words) or "{}")
        except Unreadable as error:
            if ABSENT in str(error):
                return ()
            raise
        items: Sequence[Object] = found.get("items", [found] if found else [])
        return items

    def _get(self, *words: str) -> str:
        command = ["kubectl", "get", *words, "--output=json", f"--request-timeout={SECONDS}s"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=2 * SECONDS, check=False)
        except FileNotFoundError:
            raise Unreadable("kubectl is not on the path") from None
        except subprocess.TimeoutExpired:
            raise Unreadable(f"no answer in {2 * SECONDS} s") from None
        if done.returncode:
            told = done.stderr.strip().splitlines() or [f"kubectl ended with status {done.returncode}"]
            raise Unreadable(told[-1].removeprefix("error: ").removeprefix("Error from server "))
        return done.stdout
