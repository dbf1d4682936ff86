"""Steps that the pipelines of a campaign's model share: train → evaluate → register, which fails at a refused model.

The train pipeline also tells what personalizing is worth, between train and evaluate; that of vouchers goes on to a
price.
"""

from collections.abc import Mapping
from typing import Any

from kfp import dsl

from components.evaluate import evaluate
from components.promote import promote
from components.register import gate_refused, register
from components.train import train
from components.worth import worth
from pipelines.placement import placed
from pipelines.resolve import price


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
        workspace, ray_job, canary: parameters of the pipeline, as :func:`pipelines.train.train_pipeline` and
            :func:`pipelines.retrain.retrain_pipeline` describe them.
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
                price(workspace, solve_options=options["solve"], ray_job=ray_job, after=registered)
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
