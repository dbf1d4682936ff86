"""Verdict of a watch as a file: written by the job, read by the ledger's metrics and the next solve."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from shadowprice.documents import read_json
from shadowprice.errors import InvalidInput
from shadowprice.files import write_whole
from shadowprice.watch.finding import SAMPLE_RATIO, Finding

FILE = "watch.json"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Findings of all checks on one model.

    requests    mature requests that were judged
    written_at  UTC
    """

    campaign: str
    model_version: str
    requests: int
    written_at: datetime
    findings: tuple[Finding, ...] = ()

    @property
    def model_alarms(self) -> tuple[Finding, ...]:
        """Return the alarms on the model; a mismatch of an experiment's arms is none."""
        return tuple(alarm for alarm in self.alarms if alarm.check != SAMPLE_RATIO)

    @property
    def alarms(self) -> tuple[Finding, ...]:
        """Return the findings with an alarm."""
        return tuple(finding for finding in self.findings if finding.alarm)

    def write(self, path: Path) -> None:
        """Write the verdict as JSON, whole or not at all."""
        write_whole(path, json.dumps(asdict(self) | {"written_at": self.written_at.isoformat()}, indent=1))

    @classmethod
    def read(cls, path: Path) -> Verdict | None:
        """Read a verdict; None where there is no file.

        Raises:
            InvalidInput: the file is damaged.
        """
        try:
            content = read_json(path)
            findings = tuple(Finding(**fields_of) for fields_of in content.pop("findings"))
            at = datetime.fromisoformat(content.pop("written_at")).astimezone(UTC)
            return cls(findings=findings, written_at=at, **content)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidInput(f"is not a verdict ({error}); run the watch again", field=str(path)) from error
