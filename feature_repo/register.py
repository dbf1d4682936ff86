"""The register step: a model that passed its gate becomes the one that is served."""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path

import pandas as pd

from feature_repo.columns import read_columns
from feature_repo.featurize import FEATURES, project_of, read_campaign
from feature_repo.online import publish_embeddings
from feature_repo.store import configured_online, create
from shadowprice.learning.bundle import EMBEDDINGS, read_meta

MODEL = "model"


def register(model: Path, workspace: Path) -> str:
    """Publish the embeddings of a bundle, register its feature services, and copy it to ``workspace``/model.

    The copy is put in place last and at once, so a server that loads meanwhile finds the old model
    or the new one, whole, and the embeddings it needs.

    Returns:
        The version of the model.
    """
    version = str(read_meta(model)["model_version"])
    folder = workspace / FEATURES
    columns = read_columns(folder).with_model(version)
    store = create(folder, columns, configured_online(), project_of(read_campaign(workspace)))
    publish_embeddings(store, pd.read_parquet(model / EMBEDDINGS), version)
    draft = workspace / f".{MODEL}.{uuid.uuid4().hex}"
    shutil.copytree(model, draft, ignore=shutil.ignore_patterns("checkpoint", "ray", "progress.json"))
    current, old = workspace / MODEL, workspace / f".{MODEL}.old"
    shutil.rmtree(old, ignore_errors=True)
    if current.exists():
        os.replace(current, old)
    os.replace(draft, current)
    shutil.rmtree(old, ignore_errors=True)
    return version
