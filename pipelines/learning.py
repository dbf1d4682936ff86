"""Steps that the pipelines of a campaign's model share: train → evaluate → register, if the gate is passed."""

from typing import Any

from kfp import dsl

from components.evaluate import evaluate
from components.register import register
from components.train import train
from pipelines.placement import placed


def learn(
    training: Any,
    tables: Any,
    workspace: Any,
    *,
    recipe: Any,
    epochs: Any,
    seed: Any,
    workers: Any,
    ray_job: Any,
    limits: Any,
    override: Any,
    curve_repair: Any = "",
    calibration: Any = "",
    beat_incumbent: Any = True,
    beat_uniform: Any = True,
) -> None:
    """Add the steps to the pipeline that calls it.

    Args:
        training, tables: outputs of earlier steps.
        workspace, recipe, epochs, seed, workers, ray_job, curve_repair, calibration, beat_incumbent, beat_uniform,
        limits, override: parameters of the pipeline, as :func:`pipelines.train.train_pipeline` describes them.
    """
    trained = train(
        training=training,
        recipe=recipe,
        epochs=epochs,
        seed=seed,
        workers=workers,
        curve_repair=curve_repair,
        calibration=calibration,
        workspace=workspace,
        ray_job=ray_job,
    )
    placed(trained, cpu="2", memory="16Gi", minutes=480)
    model = trained.outputs["model"]
    # The model in use changes behind its path.
    verdict = evaluate(
        model=model,
        training=training,
        tables=tables,
        workspace=workspace,
        beat_incumbent=beat_incumbent,
        beat_uniform=beat_uniform,
        limits=limits,
        override=override,
    ).set_caching_options(False)
    placed(verdict, cpu="1", memory="16Gi", minutes=60)
    with dsl.If(verdict.outputs["Output"] == True, name="gate-passed"):  # noqa: E712 - a pipeline condition
        registered = register(model=model, workspace=workspace, evaluation=verdict.outputs["evaluation"])
        registered.set_caching_options(False)
        placed(registered, cpu="1", memory="8Gi", minutes=60, online_store=True)
