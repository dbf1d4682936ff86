"""Names of the files of a workspace, and readers that load nothing that only training needs."""

import json
import logging
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from shadowprice.campaign import Campaign, Side
from shadowprice.curves import AMOUNT
from shadowprice.documents import read_json
from shadowprice.errors import InvalidInput
from shadowprice.groups import Groups
from shadowprice.limits.attributes import Attributes
from shadowprice.limits.coverage import Coverage
from shadowprice.price import PriceRecord
from shadowprice.watch.verdict import FILE as WATCH
from shadowprice.watch.verdict import Verdict

logger = logging.getLogger(__name__)
FEATURES = "features"
MODEL = "model"
"""Link to the newest model."""
VERSIONS = "models"
"""Models, one folder per version."""
SERVED_MODELS = "models.jsonl"
"""Models in the order in which they became the newest, with the user who registered each
(:mod:`operations.common.journal`)."""
PUBLISHED = "published.jsonl"
"""Versions in a model registry, with the labels that name them, likewise."""
CANARY_LOG = "canary-log.jsonl"
"""Steps of all canaries, likewise."""
POPULATION = "population"
"""Curves and activity of all accounts, one folder per version."""
COLUMNS = "columns.json"
"""Distribution of the raw columns of the accounts that asked when a model was registered, in its population."""
CAMPAIGN = "campaign.json"
PRICES = "prices"
REPLAY_LEDGER, REPLAY_PRICES = "replay-ledger.db", "replay-prices"
"""Ledger and prices of the replayed day of a run, which is no part of what is served."""
GROUPS = "groups.npy"
"""Groups of accounts that an experiment assigns together; they stay for as long as the file does."""
TIES = "ties"
"""Sums of the events of pairs of accounts, to which the next featurize job adds later events."""
SERVED = "served"
"""Decision logs of a run on one machine, a folder for each of its ledgers."""
LOG_TREE = "log-tree.txt"
"""Roots of the blocks of the served log (:mod:`shadowprice.pacing.decision_log.tree`); it can be deleted."""
LISTS, ORIGIN = "lists", "list.json"
"""Lists that were authorized, one folder each: the plan, the ledger's answers, and a file with campaign and price."""
REPORT = "report.html"
PRICE = "price.json"
"""Price record in the folder that a solve writes."""
LIFT = "lift.json"
"""Result of the job ``lift``, which the console shows."""
FIELDS = "SHADOWPRICE_CAMPAIGN_FIELDS"
"""Variable with JSON: campaign to fields that replace those of its file."""
CANARY_PRICE = "canary-price.json"
"""Price record of the canary, beside it."""


def read_campaign(path: Path) -> Campaign:
    """Read the campaign of a workspace, or of a JSON file, with the fields that the variable :data:`FIELDS` sets.

    Raises:
        InvalidInput: no such file, not JSON, or not a campaign.
    """
    file = path / CAMPAIGN if path.is_dir() else path
    try:
        campaign = Campaign.from_dict(read_json(file))
        return campaign.with_fields(json.loads(os.environ.get(FIELDS) or "{}").get(campaign.name, {}))
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error}", field=str(file)) from error
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidInput(f"is not a campaign: {error}", field=str(file)) from error


def list_prices(workspace: Path) -> list[PriceRecord]:
    """Return the prices of the lists that a workspace has authorized."""
    kept = (read_json(file) for file in sorted((workspace / LISTS).glob(f"*/{ORIGIN}")))
    return [PriceRecord.from_json(json.dumps(origin["record"])) for origin in kept]


def campaign_files(file: Path, folder: Path | None, names: str = "") -> list[Path]:
    """Return the campaign file of a service, or those of the workspaces of ``folder``, by the names of theirs.

    An empty path stands for no file. ``names``, separated by commas, are the campaigns to serve; empty: all. One whose
    workspace is not there yet is left out, so that it does not keep the others from being served.

    Raises:
        InvalidInput: neither or both are given, the folder has no workspace, or a workspace's name is not that of its
            campaign.
    """
    if (file == Path()) == (folder is None):
        raise InvalidInput("give one campaign file, or one folder of workspaces", field="campaign_file, campaigns")
    if folder is None:
        return [file]
    wanted = [name for name in names.split(",") if name]
    files = sorted(path for path in folder.glob(f"*/{CAMPAIGN}") if not wanted or path.parent.name in wanted)
    if not files:
        of = f" of {', '.join(wanted)}" if wanted else ""
        raise InvalidInput(f"has no workspace{of} with a {CAMPAIGN}", field=f"campaigns: {folder}")
    absent = sorted(set(wanted) - {candidate.parent.name for candidate in files})
    if absent:
        where = f"{folder} has no {CAMPAIGN} of {', '.join(absent)}"
        logger.warning("%s: not served; train the campaign, then restart the service", where)
    for candidate in files:
        name = read_campaign(candidate).name
        if name != candidate.parent.name:
            raise InvalidInput(f"holds campaign {name!r}; name the folder like it", field=str(candidate.parent))
    return files


def read_groups(campaign: Campaign, path: Path) -> Groups | None:
    """Read the groups that the campaign's experiment assigns; None where it assigns something else.

    Args:
        campaign: with or without an experiment.
        path: workspace, or a file of the campaign in it.

    Raises:
        InvalidInput: there is no file of groups, or it is damaged.
    """
    if campaign.experiment is None or campaign.experiment.unit != "cluster":
        return None
    return Groups.load((path if path.is_dir() else path.parent) / GROUPS)


def read_columns(campaign: Campaign, path: Path) -> dict[Side, Attributes]:
    """Read the columns of accounts that the campaign's budgets and rules read; empty where they read none.

    Args:
        campaign: with or without conditions.
        path: workspace, or a file of the campaign in it.

    Raises:
        InvalidInput: the accounts have no such column, or the file is missing or damaged.
    """
    return dict(campaign.coverage().reading(path if path.is_dir() else path.parent).attributes)


def read_worths(campaign: Campaign, path: Path) -> Coverage:
    """Read the worth of accounts, where the campaign has one; arguments and errors of :func:`read_columns`.

    The coverage has neither budgets nor rules. A worth that is the amount of a response is the expected one of the
    registered model.
    """
    folder = path if path.is_dir() else path.parent
    coverage = replace(campaign.coverage(), budgets=(), rules=()).reading(folder)
    if AMOUNT not in coverage.worths.values():
        return coverage
    from shadowprice.learning.bundle import read_meta
    from shadowprice.pacing.population import read_population
    from shadowprice.responses.layers.heads import load_heads

    model = (folder / MODEL).resolve()
    heads = load_heads(model)
    population = read_population(folder / POPULATION / str(read_meta(model)["model_version"]), heads)
    learned = {}
    for side, accounts in population.items():
        mean = heads[side].amounts(heads[side].default_embedding[None])
        if mean is not None:
            learned[side] = partial(accounts.amounts, unknown=mean)
    return replace(coverage, learned=learned)


def logs_in(workspace: Path, *, live: bool = False) -> list[Path]:
    """Return the logs of a run on one machine; ``live`` leaves that of the rehearsal out."""
    rehearsed = Path(REPLAY_LEDGER).stem if live else ""
    return sorted(path for path in (workspace / SERVED).glob("*") if path.is_dir() and path.name != rehearsed)


def log_of(workspace: Path, *, live: bool = False) -> Path:
    """Return the only one of ``logs_in``."""
    logs = logs_in(workspace, live=live)
    if len(logs) != 1:
        fault = f"holds the logs {[str(path) for path in logs]}" if logs else f"has no log in {SERVED}/"
        raise InvalidInput(f"{workspace} {fault}; name one", field="log")
    return logs[0]


def override_in(workspace: Path, model_version: str) -> dict[str, str] | None:
    """Return reason and name of the person who took a registered model that the gate had refused; None for other
    models."""
    gate = _manifest(workspace, model_version).get("gate")
    return None if gate is None else gate["override"]


def instead_of(workspace: Path, model_version: str) -> dict[str, Any] | None:
    """Return ``model_version`` and ``broken`` rules of the refused model that a flat policy replaces; None without."""
    refusal: dict[str, Any] | None = _manifest(workspace, model_version).get("instead_of")
    return refusal


def _manifest(workspace: Path, model_version: str) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = read_json(workspace / VERSIONS / model_version / "model.json")
    except (OSError, ValueError):
        return {}
    return manifest


def watch_alarms(workspace: Path, campaign: str, model_version: str) -> bool:
    """Return whether the verdict in a workspace has an alarm on a model; a missing or damaged verdict has none."""
    try:
        return alarms_on(workspace, campaign, model_version)
    except InvalidInput as error:
        print(f"no verdict of the watch: {error}", flush=True)
        return False


def alarms_on(workspace: Path, campaign: str, model_version: str) -> bool:
    """Return whether the verdict in a workspace has an alarm on a model; a missing verdict has none.

    Raises:
        InvalidInput: the verdict is damaged.
    """
    verdict = Verdict.read(workspace / WATCH)
    if verdict is None or (verdict.campaign, verdict.model_version) != (campaign, model_version):
        return False
    return bool(verdict.model_alarms)
