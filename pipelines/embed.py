"""The pipeline between trainings: prepare → featurize → embed."""

from kfp import dsl

from components.embed import embed
from components.featurize import featurize
from components.prepare import prepare
from pipelines.placement import MOUNT, placed


@dsl.pipeline(
    name="shadowprice-embed",
    display_name="Embed new accounts",
    description="Embed the accounts that came after training.",
)
def embed_pipeline(
    workspace: str = MOUNT,
    dataset: str = "tables",
    data: str = "",
    prepare_options: dict = {},  # noqa: B006 - kfp reads the default from the signature
) -> None:
    """Publish embeddings of new accounts by the model that is served.

    Args:
        workspace: folder with the model that is served and the feature store.
        dataset: that the model was trained on, with newer files.
        data: folder of the files.
        prepare_options: JSON; python -m operations prepare --help lists the options.
    """
    prepared = prepare(dataset=dataset, data=data, workspace=workspace, options=prepare_options)
    placed(prepared.set_caching_options(False), cpu="1", memory="8Gi", minutes=60)
    featurized = featurize(tables=prepared.outputs["tables"], workspace=workspace, keep_campaign=True)
    featurized.set_caching_options(False)
    placed(featurized, cpu="1", memory="16Gi", minutes=120, online_store=True)
    embedded = embed(training=featurized.outputs["training"], workspace=workspace).set_caching_options(False)
    placed(embedded, cpu="1", memory="8Gi", minutes=60, online_store=True)
