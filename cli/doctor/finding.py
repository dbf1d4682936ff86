"""Subject and result of a check."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from operations.common.job import option


@dataclass(frozen=True, kw_only=True)
class Target:
    """Installation, workspace and services that are examined; what is None or empty is not.

    place       workspace, or mapping of own files
    python      major and minor version of the interpreter
    """

    place: Path | None = None
    predictor_url: str = field(default="", metadata={"text": "address of the predictor", "flag": "--url"})
    ledger_url: str = option("", "address of the ledger")
    prometheus_url: str = option("", "address of Prometheus")
    redis: str = option("", "address of Redis, host:port")
    pipelines_url: str = option("", "address of the Kubeflow Pipelines API")
    namespace: str = option("", "namespace of a release, read by kubectl, and of its pipelines")
    token_file: Path | None = None
    ports: tuple[int, ...] = ()
    free_gb: float = option(1.0, "least free space of the disk")
    python: tuple[int, int] = sys.version_info[:2]
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def workspace(self) -> Path | None:
        """Folder of the workspace; None where there is none, or the place is a mapping."""
        return None if self.mapping else self.place

    @property
    def mapping(self) -> Path | None:
        """Mapping of own files; None where the place is a workspace."""
        return self.place if self.place is not None and self.place.suffix in (".yaml", ".yml") else None


@dataclass(frozen=True)
class Finding:
    """A fault and its mend; ``note`` marks what does not count as a fault.

    >>> Finding("ports", "port 8080 is in use", "choose another port").sentence
    'port 8080 is in use; choose another port.'
    """

    check: str
    fault: str
    mend: str
    note: bool = False

    @property
    def sentence(self) -> str:
        """Fault and mend in one sentence."""
        return f"{self.fault}; {self.mend}."


Findings = Iterator[Finding]
