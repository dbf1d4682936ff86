"""Feast, imported so that the process around it stays as it was.

Every module of this package takes Feast from here. A plain ``import feast`` would

* set ``PROMETHEUS_MULTIPROC_DIR``: if prometheus_client is imported after that, every metric of the
  process goes to files instead of memory, timestamps and exemplars are lost, labels can no longer be removed;
* put the metrics of Feast's own server, which does not run here, among those of the process;
* change the process's warning filters;
* import torch where it is installed: seconds and hundreds of megabytes that nothing here uses;
* compile its classes again with checks of types by typeguard: more seconds than all else that it imports.
"""

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import typeguard

Target = TypeVar("Target")
METRIC_FILES = ("PROMETHEUS_MULTIPROCESS_DIR", "PROMETHEUS_MULTIPROC_DIR")


def _unchecked(target: Target) -> Target:
    return target


@contextmanager
def untouched_process() -> Iterator[None]:
    """Import inside: metric folders and warning filters stay, torch is not loaded, no class is compiled again."""
    # It settles where metrics are kept at its first import, so that has to come before Feast's.
    import prometheus_client  # noqa: F401

    kept = {name: os.environ.get(name) for name in METRIC_FILES}
    hidden, checked = "torch" not in sys.modules, typeguard.typechecked
    if hidden:
        sys.modules["torch"] = None  # type: ignore[assignment]
    typeguard.typechecked = _unchecked  # type: ignore[assignment]
    try:
        with warnings.catch_warnings():
            yield
    finally:
        typeguard.typechecked = checked
        if hidden:
            del sys.modules["torch"]
        for name, value in kept.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


_first = "feast" not in sys.modules

with untouched_process():
    import feast
    import feast.metrics
    from feast.infra.key_encoding_utils import serialize_entity_key
    from feast.infra.offline_stores.file_source import FileSource
    from feast.infra.online_stores.sqlite import SqliteOnlineStore, SqliteOnlineStoreConfig
    from feast.protos.feast.types.EntityKey_pb2 import EntityKey as EntityKeyProto
    from feast.protos.feast.types.Value_pb2 import Value as ValueProto
    from feast.repo_config import RegistryConfig, load_repo_config
    from feast.types import Array, Float32, Float64, Int64, String

if _first:
    from prometheus_client import REGISTRY
    from prometheus_client.metrics import MetricWrapperBase

    for _metric in vars(feast.metrics).values():
        if isinstance(_metric, MetricWrapperBase):
            REGISTRY.unregister(_metric)

__all__ = [
    "Array",
    "EntityKeyProto",
    "FileSource",
    "Float32",
    "Float64",
    "Int64",
    "RegistryConfig",
    "SqliteOnlineStore",
    "SqliteOnlineStoreConfig",
    "String",
    "ValueProto",
    "feast",
    "load_repo_config",
    "serialize_entity_key",
]
