"""Publishing what serving reads, and reading it."""

from feature_repo.online.publish import publish_embeddings, publish_price, read_price
from feature_repo.online.reader import OnlineReader

__all__ = ["OnlineReader", "publish_embeddings", "publish_price", "read_price"]
