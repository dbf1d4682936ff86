"""Steps that the pipelines of a model share: prepare, featurize, and train → evaluate → register.

A run fails at a refused model.

The train pipeline also tells what personalizing is worth, between train and evaluate; those of vouchers and
deliveries go on to a price.
"""

from collections.abc import Mapping
from typing import Any

from kfp import dsl

from components.evaluate import evaluate
from components.featurize import featurize
from components.prepare import prepare
from components.promote import promote
from components.register import gate_refused, register
from components.train import train
from components.worth import worth
from pipelines.parameters import PARAMETERS, described
from pipelines.placement import MOUNT, placed
from pipelines.resolve import price

FIRST = """Train a model and serve it if it passes the gate.

Args:
    workspace: folder that outlives the run: features, model served, prices.
    dataset: {datasets}.
    data: folder of the files, for data sets that read files.
    settings: {settings}
"""


def first_pipeline(name: str, shown: Mapping[str, str], datasets: str, **told: bool) -> Any:
    """Return the pipeline that makes the first model of a data set.

    Args:
        name: of the pipeline; shown: its name and description for people.
        datasets: sentence on the data sets that it takes, the usual one first.
        told: ``tell_worth`` of :func:`learn`, and ``priced`` where the model that passes gets a price at once.
    """
    usual = datasets.partition(",")[0]

    def pipeline(
        workspace: str = MOUNT,
        dataset: str = usual,
        data: str = "",
        settings: dict = {},  # noqa: B006 - kfp reads the default from the signature
    ) -> None:
        options = prepared(name, dataset=dataset, data=data, workspace=workspace, options=settings)
        tables = options["tables"]
        training = training_of(tables, workspace, options=options["featurize"])
        learn(training, tables, workspace, options=options, **told)

    pipeline.__doc__ = FIRST.replace("{datasets}", datasets)
    return dsl.pipeline(described(name)(pipeline), name=f"shadowprice-{name}", **shown)


def prepared(pipeline: str, **inputs: Any) -> Mapping[str, Any]:
    """Add prepare to the pipeline that calls it, and return its outputs: ``tables``, and job → options of its step."""
    # Files behind a path change, and what writes to the workspace must write: neither may be cached.
    step = prepare(**inputs, jobs=PARAMETERS[pipeline].jobs).set_caching_options(False)
    outputs: Mapping[str, Any] = placed(step, cpu="1", memory="8Gi", minutes=60).outputs
    return outputs


def training_of(tables: Any, workspace: Any, **more: Any) -> Any:
    """Add featurize to the pipeline that calls it, and return its training set; ``more`` are inputs of the step."""
    step = featurize(tables=tables, workspace=workspace, **more).set_caching_options(False)
    return placed(step, cpu="1", memory="16Gi", minutes=120, online_store=True).outputs["training"]


def learn(
    training: Any,
    tables: Any,
    workspace: Any,
    *,
    options: Mapping[str, Any],
    trial: bool = False,
    priced: bool = False,
    tell_worth: bool = False,
) -> None:
    """Add the steps to the pipeline that calls it.

    Args:
        training, tables: outputs of earlier steps.
        workspace: parameter of the pipeline.
        options: outputs of :func:`prepared`.
        trial: whether the model may be a canary first.
        priced: whether the model that passes is priced at once.
        tell_worth: whether the worth step runs.
    """
    trained = train(training=training, workspace=workspace, options=options["train"])
    placed(trained, cpu="2", memory="16Gi", minutes=480)
    model = trained.outputs["model"]
    extra = {}
    if tell_worth:
        # The columns that conditions read are in the workspace.
        step = worth(model=model, training=training, tables=tables, workspace=workspace, options=options["train"])
        step.set_caching_options(False)
        placed(step, cpu="2", memory="16Gi", minutes=240)
        extra = {"worth": step.outputs["worth"]}
    # The model in use changes behind its path.
    verdict = evaluate(
        model=model,
        training=training,
        tables=tables,
        workspace=workspace,
        options=options["evaluate"],
        **extra,
    ).set_caching_options(False)
    placed(verdict, cpu="1", memory="16Gi", minutes=60)
    judged = {"model": model, "workspace": workspace, "evaluation": verdict.outputs["evaluation"]}
    run = {"pipeline_run": dsl.PIPELINE_JOB_ID_PLACEHOLDER}
    with dsl.If(verdict.outputs["Output"] == True, name="gate-passed"):  # noqa: E712 - a pipeline condition
        if trial:
            with dsl.If(options["canary"] == True, name="on-trial"):  # noqa: E712
                _served(promote(**judged, **run, options=options["promote"]))
            with dsl.Else(name="at-once"):
                _served(register(**judged, **run, options=options["register"]))
        else:
            served = _served(register(**judged, **run, options=options["register"]))
            if priced:
                model = served.outputs["registered"]
                price(workspace, registered=model, tables=tables, options=options["measure"], solve=options["solve"])
    with dsl.Else(name="gate-refused"):
        # The run fails, so that nobody takes it for one that registered a model.
        refused = gate_refused(**judged, page=verdict.outputs["page"])
        placed(refused.set_caching_options(False), cpu="1", memory="8Gi", minutes=60, retries=0)


def _served(step: Any) -> Any:
    step.set_caching_options(False)
    return placed(step, cpu="1", memory="8Gi", minutes=60, online_store=True)
