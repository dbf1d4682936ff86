"""The pipeline between trainings: prepare → featurize → embed."""

from kfp import dsl

from components.embed import embed
from pipelines.learning import prepared, training_of
from pipelines.parameters import described
from pipelines.placement import MOUNT, placed


@dsl.pipeline(
    name="shadowprice-embed",
    display_name="Embed new accounts",
    description="Embed the accounts that came after training.",
)
@described("embed")
def embed_pipeline(
    workspace: str = MOUNT,
    dataset: str = "tables",
    data: str = "",
    settings: dict = {},  # noqa: B006 - kfp reads the default from the signature
) -> None:
    """Publish embeddings of new accounts by the model that is served.

    Args:
        workspace: folder with the model that is served and the feature store.
        dataset: that the model was trained on, with newer files.
        data: folder of the files.
        settings: {settings}
    """
    tables = prepared("embed", dataset=dataset, data=data, workspace=workspace, options=settings)["tables"]
    training = training_of(tables, workspace, keep_campaign=True)
    embedded = embed(training=training, workspace=workspace).set_caching_options(False)
    placed(embedded, cpu="1", memory="8Gi", minutes=60, online_store=True)
