"""The training pipeline: prepare → featurize → train → worth → evaluate → register; it fails if the gate refuses."""

from kfp import dsl

from components.featurize import featurize
from components.prepare import prepare
from pipelines.learning import learn
from pipelines.placement import MOUNT, placed


@dsl.pipeline(name="shadowprice-train", description="Learn how every account responds to each incentive value.")
def train_pipeline(
    workspace: str = MOUNT,
    dataset: str = "world",
    data: str = "",
    options: dict = {},  # noqa: B006 - kfp reads the default from the signature
    recipe: str = "",
    epochs: int = 400,
    seed: int = 0,
    workers: int = 1,
    precision: str = "float32",
    device: str = "cpu",
    curve_repair: str = "",
    calibration: str = "",
    weighting: str = "none",
    beat_incumbent: bool = True,
    beat_uniform: bool = True,
    ray_job: str = "",
    limits: dict = {},  # noqa: B006
    override: dict = {},  # noqa: B006
    campaign_fields: dict = {},  # noqa: B006
) -> None:
    """Train a model and serve it if it passes the gate.

    Args:
        workspace: folder that outlives the run: feature repo, model served, prices.
        dataset: world, tables, o2o, thornton or promotion.
        data: folder of the files, for data sets that read files.
        options: what the data set takes besides.
        recipe: joint_gnn, joint_dnn or another joint network, or a response model; empty for the data set's own.
        epochs: passes over the rows, at most.
        seed: of the data where generated, initialization and dropout.
        workers: Ray workers that train, join features and embed accounts; 0 does so in the steps' own processes.
        precision: of the products of a gradient step: float32 or bfloat16.
        device: of the gradient steps: cpu, or cuda for a GPU.
        curve_repair: what is done to the curves after training: none, or of effect, pooled, by_level, monotone
            joined by '+'; empty for the data set's own, or none where a recipe is named.
        calibration: validation, or rolling: by what past weeks agree on; empty likewise.
        weighting: none, known or fitted: how rows are weighted where incentives were not assigned at random.
        beat_incumbent: whether a model in use in the workspace must be beaten in value at the campaign's budget.
        beat_uniform: whether uniform dosing must be beaten there where no model in use is compared with; if not, the
            comparison is only reported.
        ray_job: ConfigMap with the RayJob that featurize and train run in; empty runs them in the steps' containers.
        limits: of the gate that are not the usual ones, such as {"ece_share": 0.3}.
        override: {"reason": "…", "by": "…"} registers a model that the gate refuses, and is recorded in it.
        campaign_fields: fields that replace those of the campaign table: policy, exploration, alarm_exploration,
            experiment.
    """
    # Files behind a path change, and what writes to the workspace must write: neither may be cached.
    prepared = prepare(dataset=dataset, data=data, seed=seed, options=options).set_caching_options(False)
    placed(prepared, cpu="1", memory="8Gi", minutes=60)
    tables = prepared.outputs["tables"]
    featurized = featurize(
        tables=tables,
        workspace=workspace,
        weighting=weighting,
        campaign_fields=campaign_fields,
        workers=workers,
        ray_job=ray_job,
    ).set_caching_options(False)
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
        curve_repair=curve_repair,
        calibration=calibration,
        beat_incumbent=beat_incumbent,
        beat_uniform=beat_uniform,
        limits=limits,
        override=override,
        tell_worth=True,
    )
