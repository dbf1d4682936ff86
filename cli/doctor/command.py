"""``shadowprice doctor``: name each fault of an installation, a workspace and its services, with its mend."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.doctor import bounds, cluster, files, machine, pipelines, services, workspace
from cli.doctor.finding import Finding, Findings, Target
from shadowprice.command.options import AsJson, application, main_of, options_of, takes

CHECKS: Sequence[Callable[[Target], Findings]] = (
    machine.python,
    machine.kernel,
    machine.packages,
    machine.programs,
    machine.disk,
    machine.ports,
    files.mapping,
    files.tokens,
    workspace.campaign,
    workspace.columns,
    workspace.model,
    workspace.price,
    workspace.features,
    workspace.ledger_file,
    services.predictor,
    services.ledger,
    services.prometheus,
    services.redis,
    pipelines.backend,
    cluster.release,
)
"""All checks, in the order of the report."""


def examine(target: Target) -> list[Finding]:
    """Run every check; a check whose package is missing becomes a finding.

    >>> [found.check for found in examine(Target(python=(3, 9))) if found.check == "python"]
    ['python']
    """
    findings: list[Finding] = []
    for check in CHECKS:
        try:
            findings.extend(check(target))
        except ModuleNotFoundError as error:
            mend = "run pip install 'shadowprice[all]'"
            findings.append(Finding(check.__name__, f"{error.name} is not installed", mend))
    return findings


@takes(
    options_of(Target, "predictor_url", "ledger_url", "prometheus_url", "redis", "free_gb"),
    options_of(Target, "pipelines_url", "namespace"),
)
def doctor(
    place: Annotated[Path | None, typer.Argument(help="workspace, or mapping.yaml")] = None,
    token_file: Annotated[Path | None, typer.Option(help="file of tokens")] = None,
    port: Annotated[
        list[int] | None, typer.Option(min=1, max=65_535, help="port that must be free; may be repeated")
    ] = None,
    as_json: AsJson = False,
    limits: Annotated[bool, typer.Option("--limits", help="print the bounds of the services instead")] = False,
    **given: Any,
) -> None:
    """Check the installation, and what is named; exit 1 where a fault is found."""
    if limits:
        print(json.dumps([bound._asdict() for bound in bounds.bounds()]) if as_json else bounds.table())
        return
    findings = examine(Target(place=place, token_file=token_file, ports=tuple(port or ()), **given))
    faults = [finding for finding in findings if not finding.note]
    if as_json:
        print(json.dumps({"healthy": not faults, "findings": [asdict(finding) for finding in findings]}))
    else:
        for finding in findings:
            print(f"{'note' if finding.note else 'fault'} ({finding.check}): {finding.sentence}")
        count = len(faults)
        print(f"{count} fault{'s' if count > 1 else ''} found" if faults else "no fault found")
    if faults:
        raise typer.Exit(1)


app = application(doctor)
main = main_of(app, "shadowprice doctor")
