"""The pipeline that closes the loop: prepare → harvest → featurize → train → evaluate → register or promote."""

from kfp import dsl

from components.featurize import featurize
from components.harvest import harvest
from components.prepare import prepare
from pipelines.learning import learn
from pipelines.placement import MOUNT, placed


@dsl.pipeline(name="shadowprice-retrain", description="Train again, with the decisions that were served.")
def retrain_pipeline(
    workspace: str = MOUNT,
    log: str = "",
    dataset: str = "tables",
    data: str = "",
    options: dict = {},  # noqa: B006 - kfp reads the default from the signature
    recipe: str = "",
    epochs: int = 400,
    seed: int = 0,
    workers: int = 1,
    precision: str = "float32",
    device: str = "cpu",
    mature_hours: int = -1,
    recent_days: int = 0,
    weighting: str = "none",
    ray_job: str = "",
    limits: dict = {},  # noqa: B006
    override: dict = {},  # noqa: B006
    canary: bool = False,
    beat_uniform: bool = True,
) -> None:
    """Train a model on its data set and on what it was served with; serve it if it beats the one in use.

    Args:
        workspace: folder with the campaign that is served; gets the new model.
        log: folder of the decision log; that of a run on one machine if empty.
        dataset: that the model in use was trained on, with the newest files.
        data: folder of the files, for data sets that read files.
        options: what the data set takes besides.
        recipe: as of the train pipeline; empty for the data set's own.
        epochs: passes over the rows, at most.
        seed: of the data where generated, initialization and dropout.
        workers: Ray workers that train, join features and embed accounts; 0 does so in the steps' own processes.
        precision: of the products of a gradient step: float32 or bfloat16.
        device: of the gradient steps: cpu, or cuda for a GPU.
        mature_hours: age at which a decision without an outcome counts as no response; -1: when its money is released.
        recent_days: days before the newest served decision whose rows are trained on; 0: all rows.
        weighting: known weighs each row by the inverse of its logged propensity, so that levels that the served policy
            seldom chose are learnt as well; none, or fitted.
        ray_job: ConfigMap with the RayJob that featurize and train run in; empty runs them in the steps' containers.
        limits: of the gate that are not the usual ones, such as {"ece_share": 0.3}.
        override: {"reason": "…", "by": "…"} registers a model that the gate refuses, and is recorded in it.
        canary: whether a model that passes the gate first decides for a small share beside the one in use; the job
            promote then lets it grow, or rolls it back.
        beat_uniform: refuse a model that does not beat uniform dosing at the campaign's budget.
    """
    prepared = prepare(dataset=dataset, data=data, seed=seed, options=options).set_caching_options(False)
    placed(prepared, cpu="1", memory="8Gi", minutes=60)
    served = harvest(
        tables=prepared.outputs["tables"],
        log=log,
        workspace=workspace,
        mature_hours=mature_hours,
        recent_days=recent_days,
    )
    placed(served.set_caching_options(False), cpu="1", memory="8Gi", minutes=60)
    tables = served.outputs["harvested"]
    featurized = featurize(
        tables=tables, workspace=workspace, weighting=weighting, keep_campaign=True, workers=workers, ray_job=ray_job
    )
    featurized.set_caching_options(False)
    placed(featurized, cpu="1", memory="16Gi", minutes=120, online_store=True)
    learn(
        featurized.outputs["training"],
        tables,
        workspace,
        recipe=recipe,
        epochs=epochs,
        seed=seed,
        workers=workers,
        precision=precision,
        device=device,
        ray_job=ray_job,
        limits=limits,
        override=override,
        canary=canary,
        beat_uniform=beat_uniform,
    )
