"""``shadowprice doctor``: name each fault of an installation, a workspace and its services, with its mend."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from cli.doctor import bounds, files, machine, services, workspace
from cli.doctor.finding import Finding, Findings, Target
from shadowprice.command.options import AsJson, application, main_of

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
    workspace.model,
    workspace.price,
    workspace.features,
    workspace.ledger_file,
    services.predictor,
    services.ledger,
    services.prometheus,
    services.redis,
)
"""All checks, in the order of the report."""


def examine(target: Target) -> list[Finding]:
    """Run every check; a check whose package is missing becomes a finding.

    >>> [found.check for found in examine(Target(python=(3, 9))) if found.check == "python"]
    ['python']
    """
    found: list[Finding] = []
    for check in CHECKS:
        try:
            found.extend(check(target))
        except ModuleNotFoundError as error:
            mend = "run pip install 'shadowprice[all]'"
            found.append(Finding(check.__name__, f"{error.name} is not installed", mend))
    return found


def doctor(
    place: Annotated[Path | None, typer.Argument(help="workspace, or mapping.yaml")] = None,
    url: Annotated[str, typer.Option(help="address of the predictor")] = "",
    ledger_url: Annotated[str, typer.Option(help="address of the ledger")] = "",
    prometheus_url: Annotated[str, typer.Option(help="address of Prometheus")] = "",
    redis: Annotated[str, typer.Option(help="address of Redis, host:port")] = "",
    token_file: Annotated[Path | None, typer.Option(help="file of tokens")] = None,
    port: Annotated[
        list[int] | None, typer.Option(min=1, max=65_535, help="port that must be free; may be repeated")
    ] = None,
    free_gb: Annotated[float, typer.Option(help="least free space of the disk")] = 1.0,
    as_json: AsJson = False,
    limits: Annotated[bool, typer.Option("--limits", help="print the bounds of the services instead")] = False,
) -> None:
    """Check the installation, and what is named; exit 1 where a fault is found."""
    if limits:
        print(json.dumps([each._asdict() for each in bounds.bounds()]) if as_json else bounds.table())
        return
    found = examine(
        Target(
            place=place,
            predictor_url=url,
            ledger_url=ledger_url,
            prometheus_url=prometheus_url,
            redis=redis,
            token_file=token_file,
            ports=tuple(port or ()),
            free_gb=free_gb,
        )
    )
    faults = [each for each in found if not each.note]
    if as_json:
        print(json.dumps({"healthy": not faults, "findings": [asdict(each) for each in found]}))
    else:
        for each in found:
            print(f"{'note' if each.note else 'fault'} ({each.check}): {each.sentence}")
        count = len(faults)
        print(f"{count} fault{'s' if count > 1 else ''} found" if faults else "no fault found")
    if faults:
        raise typer.Exit(1)


app = application(doctor)
main = main_of(app, "shadowprice doctor")
