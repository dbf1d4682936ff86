"""The evaluate step of a delivery: its plan judged by held-out deliveries, as a report's part, a page and a text."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from shadowprice.currency import Currency
from shadowprice.datasets.package import load_dataset
from shadowprice.evaluation.policy.mending import Override
from shadowprice.files import write_whole
from shadowprice.learning.bundle import read_meta
from shadowprice.learning.delivery_plan import read_values
from shadowprice.learning.delivery_value import plan_value, written
from shadowprice.learning.training_set import TrainingSet
from shadowprice.reports.data import ReportData
from shadowprice.reports.report import write_report
from shadowprice.responses.funds.delivered import SIDE
from shadowprice.responses.sided import load_sided
from shadowprice.storage import to_json
from shadowprice.tables import campaign_from_tables


def evaluate_delivery(
    model: Path, training: Path, data: Path, override: Override | None, *, out: Path, page: Path, summary: Path
) -> tuple[bool, Mapping[str, float]]:
    """Judge the bundle of a delivery by what its plan brings on held-out deliveries, and write what is found.

    Arguments and result are those of :func:`~shadowprice.reports.evaluation.evaluate_bundle`; ``override`` is the
    decision of a person to use a model that the gate refuses.
    """
    dataset, rows, meta = load_dataset(data), TrainingSet.load(training), read_meta(model)
    campaign, currency = campaign_from_tables(dataset.tables, dataset.currency), Currency.of(dataset.currency)
    account_id, value, tolerance = read_values(model)
    held_out, learned = (rows.part(*splits)[SIDE] for splits in (("test",), ("train", "validation")))
    measured = plan_value(account_id, value, tolerance, campaign.terms(SIDE).segments, held_out, learned)
    figures = load_sided(model).figures(rows.inputs, {SIDE: held_out})
    gate = measured.gate(currency).overridden(override)
    plan_figures: dict[str, str | int | float] = {
        "value of the plan, measured": written(measured.value, currency),
        "value of the plan, predicted": currency.write(measured.predicted),
        **{f"plan less {name}, measured": written(gain, currency) for name, gain in measured.gain.items()},
        "held-out deliveries": measured.rows,
    }
    part = ReportData(
        title=f"Evaluation of {meta['model_version']}",
        dataset=dataset.name,
        created_at=datetime.now(UTC),
        simulated=dataset.truth is not None,
        currency=currency,
        facts={"Value of an account": plan_figures, "Predictions on held-out deliveries": figures},
        gate=gate,
        campaign=campaign,
        notes=tuple(f"{name}: {text}" for name, text in dataset.notes.items()),
    )
    write_whole(out, to_json(part))
    write_report(part, page)
    lines = [f"| {name} | {shown} |" for name, shown in plan_figures.items()]
    lines += [f"| {name} | {figure:.6g} |" for name, figure in figures.items()]
    write_whole(summary, "\n".join([str(gate), "", "| an account | |", "|---|---|", *lines, ""]))
    gains = {f"gain_over_{name.replace(' ', '_')}": gain.value for name, gain in measured.gain.items()}
    return gate.accepted, {"value": measured.value.value, "predicted": measured.predicted, **gains, **figures}
