"""Creating and opening the Feast repository of a run."""

import os
import re
import shutil
import sqlite3
import uuid
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

from feature_repo.columns import FEATURES_FILE, FeatureColumns, read_columns
from feature_repo.compact import KIND, PAGE_BYTES
from feature_repo.definitions import PRICE_VIEW, build, source_file
from feature_repo.names import CONFIG_FILE, REDIS_VARIABLE
from feature_repo.sdk import RegistryConfig, feast, load_repo_config
from shadowprice.errors import InvalidInput, Unavailable
from shadowprice.files import write_whole

Online = Literal["sqlite", "redis"]

REGISTRY_FILE = "registry.db"
ONLINE_FILE = "online.db"
DEFINITIONS_FILE = "feature_definitions.py"

_ONLINE: dict[Online, str] = {
    "sqlite": f"""\
  type: {KIND}
  path: {ONLINE_FILE}
""",
    # A decision cannot wait through the client's default retries, which take seconds. What comes
    # later in the string wins, so the variable may set other timeouts. Publishing itself decides
    # what is newer (a model may be rolled back), so the store must not.
    "redis": f"""\
  type: redis
  connection_string: socket_timeout=1,socket_connect_timeout=1,retry=null,${{{REDIS_VARIABLE}}}
  skip_dedup: true
""",
}

# Definitions of a running process do not change: no expiry, no registry reads between requests.
_CONFIG = """\
project: {project}
provider: local
registry:
  path: {registry}
  cache_ttl_seconds: 0
offline_store:
  type: duckdb
online_store:
{online}entity_key_serialization_version: 3
"""

_DEFINITIONS = f'''\
"""What ``feast apply`` registers: the objects described by {FEATURES_FILE} beside this file."""

from pathlib import Path

from feature_repo.definitions import build_folder

globals().update({{str(number): item for number, item in enumerate(build_folder(Path(__file__).parent))}})
'''


def create(
    path: str | os.PathLike[str],
    columns: FeatureColumns,
    online: Online = "sqlite",
    project: str = "shadowprice",
) -> Any:
    """Make ``path`` a Feast repository for ``columns``, or bring the one there up to date, and open it.

    Written are feature_store.yaml, the definitions for ``feast apply``, the registry and, last,
    features.json; each whole or not at all, so an interrupted call is finished by the next one, and
    a call that finds everything in place changes nothing. Models registered before stay registered.

    Args:
        path: the folder; made when it is missing.
        columns: the feature columns of the data set, from :func:`feature_repo.columns.describe`.
        online: ``sqlite``, a file in the folder; or ``redis``, at the address that the environment
            variable ``SHADOWPRICE_REDIS`` holds whenever the store is opened. Neither the address
            nor a password is written to a file.
        project: prefix of the rows in the online store; data sets that share one Redis need different ones.

    Returns:
        A :class:`feast.FeatureStore`.

    Raises:
        InvalidInput: an argument is wrong.
        Unavailable: the folder cannot be written.
    """
    if online not in get_args(Online):
        raise InvalidInput(f"must be one of {get_args(Online)}, got {online!r}", field="online")
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", project):
        raise InvalidInput(f"{project!r}: use letters, digits and '_', a letter first", field="project")
    folder = Path(path).resolve()
    config = _CONFIG.format(project=project, registry=REGISTRY_FILE, online=_ONLINE[online])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / FEATURES_FILE).exists():
            earlier = read_columns(folder).model_versions
            newer = columns.model_versions
            columns = replace(columns, model_versions=(*(v for v in earlier if v not in newer), *newer))
        if not _in_place(folder, config, columns):
            write_whole(folder / CONFIG_FILE, config)
            write_whole(folder / DEFINITIONS_FILE, _DEFINITIONS)
            _register(folder, columns)
            write_whole(folder / FEATURES_FILE, columns.to_json())
    except (OSError, sqlite3.Error) as error:
        raise Unavailable(f"feature store {folder}: cannot be created: {error}") from error
    return open_store(folder)


def configured_online() -> Online:
    """The online store that the environment asks for: Redis when its address is set, else sqlite."""
    return "redis" if os.environ.get(REDIS_VARIABLE) else "sqlite"


def open_store(path: str | os.PathLike[str]) -> Any:
    """The :class:`feast.FeatureStore` in a folder that :func:`create` made.

    Raises:
        Unavailable: the folder or a file in it is missing, or the Redis address is not set.
    """
    folder = Path(path).resolve()
    for name in (CONFIG_FILE, REGISTRY_FILE, FEATURES_FILE):
        if not (folder / name).is_file():
            raise Unavailable(f"feature store {folder}: {name} is missing; `shadowprice job featurize` makes it")
    _check_variable(folder)
    return feast.FeatureStore(repo_path=str(folder))


def store_columns(store: Any) -> FeatureColumns:
    """The description of an open store's features."""
    return read_columns(Path(store.repo_path))


def _check_variable(folder: Path) -> None:
    if f"${{{REDIS_VARIABLE}}}" in (folder / CONFIG_FILE).read_text() and not os.environ.get(REDIS_VARIABLE):
        raise Unavailable(
            f"feature store {folder}: the environment variable {REDIS_VARIABLE} is not set; "
            "give it the address of Redis, such as localhost:6379"
        )


def is_file(online: Any) -> bool:
    """Return whether the configured online store is a sqlite file."""
    return bool(online.type == KIND)


def _in_place(folder: Path, config: str, columns: FeatureColumns) -> bool:
    wanted = {CONFIG_FILE: config, DEFINITIONS_FILE: _DEFINITIONS, FEATURES_FILE: columns.to_json()}
    files = all((folder / name).is_file() and (folder / name).read_text() == text for name, text in wanted.items())
    if not files or not (folder / REGISTRY_FILE).is_file():
        return False
    # The registry holds absolute paths: a folder that was moved has to be registered again.
    store = open_store(folder)
    return bool(store.get_feature_view(PRICE_VIEW).batch_source.path == str(source_file(folder, PRICE_VIEW)))


def _register(folder: Path, columns: FeatureColumns) -> None:
    """Apply the definitions to a copy of the registry and put the copy in its place.

    Feast writes a registry in place; a reader that opens it meanwhile would find half a file.
    """
    draft = folder / f".{REGISTRY_FILE}.{uuid.uuid4().hex}"
    try:
        if (folder / REGISTRY_FILE).exists():
            shutil.copyfile(folder / REGISTRY_FILE, draft)
        config = load_repo_config(folder, folder / CONFIG_FILE)
        config.registry_config = RegistryConfig(path=str(draft), cache_ttl_seconds=0)
        if is_file(config.online_store):
            _prepare_sqlite(folder / ONLINE_FILE)
        feast.FeatureStore(config=config, repo_path=str(folder)).apply(build(columns, folder))
        os.replace(draft, folder / REGISTRY_FILE)
    finally:
        draft.unlink(missing_ok=True)


def _prepare_sqlite(path: Path) -> None:
    """Write-ahead logging and the size of a page, lasting properties: publishing does not make readers wait."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.execute("PRAGMA journal_mode = WAL")
