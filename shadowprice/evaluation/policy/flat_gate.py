"""The gate of a flat policy: the rules that mean something where all accounts have one curve."""

from collections.abc import Collection, Mapping, Sequence

from shadowprice.checks import require
from shadowprice.evaluation.policy.gate import Check, Found, GateResult, Requirements, side_checks
from shadowprice.evaluation.policy.mending import MEANINGS


def flat_gate(
    candidate: Mapping[str, Mapping[str, Found]],
    limits: Requirements | None = None,
    *,
    extra: Sequence[Check] = (),
    confounded: Collection[str] = (),
    rows: Mapping[str, int] | None = None,
) -> GateResult:
    """Judge a flat policy by its metrics.

    It ranks nobody, and it is the best policy that treats all alike. So neither its AUC nor its value against uniform
    dosing is asked for, nor the squared error of a personal model. Asked for are finite metrics, calibration by level,
    and a curve that does not fall.

    Args:
        candidate: side → metric name → value or Estimate, as of :func:`~shadowprice.evaluation.policy.gate.gate`.
        limits: ``ece_share`` of them.
        extra: further checks, such as that of a trial whose accounts were not alike.
        confounded: sides whose levels had reasons: means by level do not show the effect of the level there, and
        calibration by
            level is not asked for.
        rows: side → test rows, to tell how many would mend a broken rule.

    Raises:
        InvalidInput: no side.
    """
    require(candidate, "candidate", "needs the metrics of at least one side")
    checks: list[Check] = list(extra)
    for side, metrics in candidate.items():
        own = {name: entry for name, entry in metrics.items() if name != "auc"}
        of_side = side_checks(side, own, {}, limits or Requirements(), (rows or {}).get(side))
        checks += [finding for finding in of_side if side not in confounded or finding.meaning != MEANINGS["ece"]]
    return GateResult(all(check.passed for check in checks), tuple(checks))
