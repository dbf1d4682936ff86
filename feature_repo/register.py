"""The register step: a model that passed its gate becomes the one that is served.

``python -m feature_repo.register BUNDLE WORKSPACE`` registers one by hand; to go back to an earlier model the bundle is
``WORKSPACE/models/<version>``. The next price names it, and predictors take both over together.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import uuid
from pathlib import Path

import pandas as pd

from feature_repo.columns import read_columns
from feature_repo.featurize import project_of
from feature_repo.online import publish_embeddings
from feature_repo.store import configured_online, create
from feature_repo.workspace import FEATURES, MODEL, read_campaign
from shadowprice.errors import Conflict, ShadowpriceError
from shadowprice.learning.bundle import EMBEDDINGS, read_meta
from shadowprice.responses.integrity import file_digests

VERSIONS = "models"
"""The models, one folder per version."""


def register(model: Path, workspace: Path) -> str:
    """Publish the embeddings of a bundle, register its feature services, and make it the newest model.

    The bundle is copied to ``workspace``/models/<version>, whose content never changes, and the link
    ``workspace``/model is pointed to it last and at once: a server or solver that reads meanwhile finds
    the old model or the new one, whole, and the embeddings it needs. The next price is solved for the new
    model, and a running server takes both over together.

    Returns:
        The version of the model.

    Raises:
        Conflict: there is another model of this version.
    """
    version = str(read_meta(model)["model_version"])
    _keep(model, workspace / VERSIONS / version)
    folder = workspace / FEATURES
    columns = read_columns(folder).with_model(version)
    store = create(folder, columns, configured_online(), project_of(read_campaign(workspace)))
    publish_embeddings(store, pd.read_parquet(model / EMBEDDINGS), version)
    _point(workspace / MODEL, Path(VERSIONS) / version)
    return version


def _keep(model: Path, place: Path) -> None:
    """Copy a bundle to its place, whole or not at all; nothing is done where it is there already."""
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        draft = place.parent / f".{place.name}.{uuid.uuid4().hex}"
        shutil.copytree(model, draft, ignore=shutil.ignore_patterns("checkpoint", "ray", "progress.json"))
        try:
            os.replace(draft, place)
        except OSError:  # somebody else was first
            shutil.rmtree(draft)
            if not place.exists():
                raise
    if file_digests(place) != file_digests(model):
        raise Conflict(f"{place} holds another model of this version; a version is kept as it was registered")


def _point(link: Path, target: Path) -> None:
    """Make ``link`` a symbolic link to ``target``, at once."""
    if link.is_dir() and not link.is_symlink():
        # A copy of a workspace may have followed the link. Nothing can replace a folder at once.
        os.replace(link, link.with_name(f".{link.name}.{uuid.uuid4().hex}"))
    draft = link.with_name(f".{link.name}.{uuid.uuid4().hex}")
    draft.symlink_to(target, target_is_directory=True)
    os.replace(draft, link)


def main() -> int:
    """Command line: 1 with the reason when the model is not registered."""
    parser = argparse.ArgumentParser(prog="python -m feature_repo.register", description="Make a model the newest one.")
    parser.add_argument("bundle", type=Path, help="folder of the model, such as WORKSPACE/models/<version>")
    parser.add_argument("workspace", type=Path)
    given = parser.parse_args()
    try:
        version = register(given.bundle, given.workspace)
    except ShadowpriceError as error:
        print(f"not registered, the model in use stays: {error}", file=sys.stderr)
        return 1
    print(f"registered {version}; solve the price, which takes it into use")
    return 0


if __name__ == "__main__":
    sys.exit(main())
