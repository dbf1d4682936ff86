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
from pipelines.parameters import PARAMETERS
from pipelines.placement import MOUNT, placed
from pipelines.resolve import price

FIRST = """Train a model and serve it if it passes the gate.

Args:
    workspace: folder that outlives the run: features, model served, prices.
    dataset: {}.
    data: folder of the files, for data sets that read files.
    ray_job: ConfigMap with the RayJob of steps that share work; empty runs them in the steps' containers.
    prepare_options: JSON; python -m operations prepare --help lists the options.
    featurize_options: JSON; python -m operations featurize --help lists the options.
    train_options: JSON; python -m operations train --help lists the options.
    evaluate_options: JSON; python -m operations evaluate --help lists the options.
    register_options: JSON; python -m operations register --help lists the options.
"""


def first_pipeline(name: str, shown: Mapping[str, str], datasets: str, **told: bool) -> Any:
    """Return the pipeline that makes the first model of a data set.

    Args:
        name: of the pipeline; shown: its name and description for people.
        datasets: sentence on the data sets that it takes, the usual one first.
        told: ``tell_worth`` of :func:`learn`, and ``priced`` where the model that passes gets a price at once.
    """
    usual, train_defaults = datasets.partition(",")[0], PARAMETERS[name].jobs["train"]

    def pipeline(
        workspace: str = MOUNT,
        dataset: str = usual,
        data: str = "",
        ray_job: str = "",
        prepare_options: dict = {},  # noqa: B006 - kfp reads the default from the signature
        featurize_options: dict = {},  # noqa: B006
        train_options: dict = train_defaults,
        evaluate_options: dict = {},  # noqa: B006
        register_options: dict = {},  # noqa: B006
    ) -> None:
        options = {
            "prepare": prepare_options,
            "featurize": featurize_options,
            "train": train_options,
            "evaluate": evaluate_options,
            "register": register_options,
        } | ({"solve": {}} if told.get("priced") else {})
        tables = tables_of(dataset, data, workspace, options)
        training = training_of(tables, workspace, options=featurize_options, ray_job=ray_job)
        worth = told.get("tell_worth", False)
        learn(training, tables, workspace, options=options, ray_job=ray_job, tell_worth=worth)

    pipeline.__doc__ = FIRST.format(datasets)
    return dsl.pipeline(pipeline, name=f"shadowprice-{name}", **shown)


def tables_of(dataset: Any, data: Any, workspace: Any, options: Mapping[str, Any]) -> Any:
    """Add prepare to the pipeline that calls it, and return its tables.

    ``options`` are the parameters of its steps, by step; prepare checks those of the later ones.
    """
    later = {step: given for step, given in options.items() if step not in ("prepare", "solve")}
    # Files behind a path change, and what writes to the workspace must write: neither may be cached.
    step = prepare(dataset=dataset, data=data, workspace=workspace, options=options["prepare"], **later)
    step.set_caching_options(False)
    return placed(step, cpu="1", memory="8Gi", minutes=60).outputs["tables"]


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
    ray_job: Any,
    canary: Any = False,
    tell_worth: bool = False,
) -> None:
    """Add the steps to the pipeline that calls it.

    Args:
        training, tables: outputs of earlier steps.
        workspace, ray_job, canary: parameters of the pipeline, as :func:`pipelines.retrain.retrain_pipeline` describes
            them.
        options: step → its parameter of the pipeline; with one of ``solve`` the model that passes is priced at once.
        tell_worth: whether the worth step runs.
    """
    trained = train(training=training, workspace=workspace, options=options["train"], ray_job=ray_job)
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
    run = {"pipeline_run": dsl.PIPELINE_JOB_ID_PLACEHOLDER, "options": options["register"]}
    with dsl.If(verdict.outputs["Output"] == True, name="gate-passed"):  # noqa: E712 - a pipeline condition
        if canary is False:
            registered = _served(register(**judged, **run))
            if "solve" in options:
                price(workspace, solve_options=options["solve"], ray_job=ray_job, after=registered, tables=tables)
        else:
            with dsl.If(canary == True, name="on-trial"):  # noqa: E712
                _served(promote(**judged, **run))
            with dsl.Else(name="at-once"):
                _served(register(**judged, **run))
    with dsl.Else(name="gate-refused"):
        # The run fails, so that nobody takes it for one that registered a model.
        refused = gate_refused(**judged, page=verdict.outputs["page"])
        placed(refused.set_caching_options(False), cpu="1", memory="8Gi", minutes=60, retries=0)


def _served(step: Any) -> Any:
    step.set_caching_options(False)
    return placed(step, cpu="1", memory="8Gi", minutes=60, online_store=True)
