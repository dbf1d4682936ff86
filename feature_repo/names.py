"""Names of a data set's features in Feast and of the files of a repository; imports nothing."""

from shadowprice.campaign import Campaign, Side

CONFIG_FILE = "feature_store.yaml"
REDIS_VARIABLE = "SHADOWPRICE_REDIS"
"""Environment variable with Feast's connection string, such as ``redis:6379,db=0,password=...``."""


def project_of(campaign: Campaign) -> str:
    """Feast project of a campaign: the prefix of its rows in a store that campaigns share."""
    return "shadowprice_" + campaign.name.replace("-", "_")


def entity_key(subject: str) -> str:
    """The join key of an entity: customer_id, merchant_id or campaign_id."""
    return f"{subject}_id"


def profile_view(side: Side) -> str:
    """The view that holds profiles of a side."""
    return f"{side}_profile"


def interactions_view(side: Side) -> str:
    """The view that holds aggregates of past events of a side."""
    return f"{side}_interactions"


def snapshot_field(side: Side) -> str:
    """Feature that says when a profile was taken, int64 unix seconds."""
    return f"{side}_snapshot_at"


def account_view(side: Side) -> str:
    """The view that holds the newest columns of accounts of a side for decisions."""
    return f"{side}_account"


def columns_field(side: Side) -> str:
    """Feature that holds the newest columns of an account and the time of its profile, as one JSON text."""
    return f"{side}_account_columns"


def embedding_view(side: Side) -> str:
    """The view that holds embeddings of a side."""
    return f"{side}_embedding"


def vector_field(side: Side) -> str:
    """Feature that holds the embedding, a list of float32."""
    return f"{side}_embedding_vector"


def computed_field(side: Side) -> str:
    """Feature that says when the embedding was computed, float64 unix seconds.

    The event time that the online store keeps beside a row is not used for this: the sqlite store
    rounds it to seconds and passes it through the local time zone of the process.
    """
    return f"{side}_embedding_computed_at"


def model_field(side: Side) -> str:
    """Feature that names the model that computed the embedding."""
    return f"{side}_embedding_model"
