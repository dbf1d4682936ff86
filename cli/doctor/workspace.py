"""Checks of a workspace: campaign, model, price, feature store, ledger file."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from cli.doctor.finding import Finding, Findings, Target
from operations.common.workspace import CAMPAIGN, FEATURES, MODEL, PRICES, read_campaign, read_columns
from shadowprice.campaign import Campaign
from shadowprice.errors import ShadowpriceError

LEDGER = "ledger.db"
STEPS = "pipeline"
"""Folder of the steps of a run on one machine, which no deployed workspace has."""


def campaign(target: Target) -> Findings:
    """Check that the workspace has a campaign whose window has not ended."""
    if target.workspace is None:
        return
    try:
        current = read_campaign(target.workspace)
    except ShadowpriceError as error:
        yield Finding("campaign", str(error), "name the folder of a run, or run `shadowprice job featurize`")
        return
    if current.ends_at <= target.now:
        fault = f"the window of campaign {current.name} ended at {current.ends_at:%Y-%m-%d %H:%M} UTC"
        # A run on one machine replays a past day.
        replay = (target.workspace / STEPS).is_dir()
        mend = "`shadowprice serve` begins another one" if replay else "move starts_at"
        yield Finding("campaign", fault, mend, note=replay)


def columns(target: Target) -> Findings:
    """Check that the accounts have the columns that limits and rules read."""
    current = _campaign(target)
    if current is None or target.workspace is None:
        return
    try:
        read_columns(current, target.workspace)
    except ShadowpriceError as error:
        yield Finding("columns", str(error), f"correct the limits and rules in {CAMPAIGN}")


def model(target: Target) -> Findings:
    """Check that the model is there and that its files are those that were written."""
    if _campaign(target) is None or target.workspace is None:
        return
    from shadowprice.learning.bundle import read_meta
    from shadowprice.responses.integrity import check_files

    folder = target.workspace / MODEL
    try:
        check_files(folder, read_meta(folder).get("files"))
    except (ShadowpriceError, ValueError) as error:
        yield Finding(
            "model", str(error), f"restore {folder.resolve()} from a backup, or remove it and register its bundle again"
        )


def price(target: Target) -> Findings:
    """Check that the newest price is sound, of this campaign and model, and not stale."""
    current = _campaign(target)
    if current is None or target.workspace is None:
        return
    from shadowprice.learning.bundle import version_in
    from shadowprice.pacing.price_rules import check_price
    from shadowprice.pacing.price_store import PriceStore

    store = PriceStore(target.workspace / PRICES)
    try:
        newest = store.latest(current.name)
        if newest is None:
            others = sorted(path.name for path in store.root.glob("*") if path.is_dir())
            of = f", only of {', '.join(others)}" if others else ""
            yield Finding(
                "price", f"campaign {current.name} has no price{of}", "solve and publish a price of this campaign"
            )
            return
        check_price(newest, current, target.now)
    except ShadowpriceError as error:
        yield Finding("price", str(error), "solve and publish a new price")
        return
    served = version_in(target.workspace / MODEL).get("model_version", newest.model_version)
    if newest.model_version != served:
        fault = f"price version {newest.version} is of model {newest.model_version}, and {served} is served"
        yield Finding("price", fault, "solve and publish a price of the served model")
    if newest.expires_at <= target.now < current.ends_at:
        fault = f"price version {newest.version} is stale since {newest.expires_at:%Y-%m-%d %H:%M} UTC"
        yield Finding("price", fault, "run a re-solve and check its schedule")


def features(target: Target) -> Findings:
    """Check the configuration of the feature store."""
    current = _campaign(target)
    if current is None or target.workspace is None:
        return
    import yaml

    from feature_repo.names import CONFIG_FILE, REDIS_VARIABLE, project_of

    path = target.workspace / FEATURES / CONFIG_FILE
    try:
        text = path.read_text()
        config = yaml.safe_load(text)
    except (OSError, yaml.YAMLError):
        yield Finding("features", f"Feast's configuration {path} cannot be read", "run `shadowprice job featurize`")
        return
    project = config.get("project") if isinstance(config, dict) else None
    if project != project_of(current):
        fault = f"{path} is of project {project}, not {project_of(current)}"
        yield Finding("features", fault, "run `shadowprice job featurize` for this campaign")
    if REDIS_VARIABLE in text and REDIS_VARIABLE not in os.environ:
        yield Finding("features", f"the variable {REDIS_VARIABLE} is not set", "set it to the address of Feast's Redis")


def ledger_file(target: Target) -> Findings:
    """Check that the ledger's file has this campaign and a schema that this version reads."""
    current = _campaign(target)
    if current is None or target.workspace is None or not (target.workspace / LEDGER).exists():
        return
    from serving.ledger.sqlite.database import SCHEMA_VERSION, UPGRADES

    path = target.workspace / LEDGER
    try:
        about = _about(path)
    except sqlite3.Error as error:
        mend = "stop the program that locks it, or restore the file from a backup"
        yield Finding("ledger_file", f"the ledger file {path} cannot be read: {error}", mend)
        return
    schema = about.get("schema")
    if schema != SCHEMA_VERSION and schema not in UPGRADES:
        fault = f"the ledger file {path} has schema {schema}, and this version reads {SCHEMA_VERSION}"
        yield Finding("ledger_file", fault, "install the version that wrote it, or use another file")
    if about.get("campaign") != current.name:
        fault = f"the ledger file {path} is of campaign {about.get('campaign')}, not {current.name}"
        yield Finding("ledger_file", fault, "use another file for this campaign")


def _campaign(target: Target) -> Campaign | None:
    """Return the campaign; None where :func:`campaign` reports why there is none."""
    try:
        return None if target.workspace is None else read_campaign(target.workspace)
    except ShadowpriceError:
        return None


def _about(path: Path) -> dict[str, str]:
    uri = f"{path.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, timeout=1.0)) as database:
        return dict(database.execute("SELECT key, value FROM about").fetchall())
