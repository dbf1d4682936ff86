"""The worth step: worth of personalizing with a trained bundle and further models of its recipe."""

from dataclasses import replace
from pathlib import Path

from shadowprice.datasets.package import load_dataset
from shadowprice.files import write_whole
from shadowprice.learning.fit import fit_model
from shadowprice.learning.recipes import Training, choose_training
from shadowprice.learning.training_set import TrainingSet
from shadowprice.learning.worth.find import FITTED_ACCOUNTS, FoundWorth, find_worth
from shadowprice.learning.worth.judge import Terms
from shadowprice.learning.worth.stages import EDGES
from shadowprice.pacing.history import fit_traffic
from shadowprice.progress import Stages
from shadowprice.responses.sided import SidedModel, load_sided
from shadowprice.responses.training import TrainingConfig
from shadowprice.storage import to_json
from shadowprice.tables import campaign_from_tables

EPOCHS = 200
"""Epochs of a further model, at most."""
JUDGED_ACCOUNTS = 200_000
"""Accounts of each side that are read, at most."""


def worth_of_bundle(
    model: Path,
    training: Path,
    tables: Path,
    out: Path,
    how: Training,
    config: TrainingConfig,
    columns: Path | None = None,
) -> FoundWorth:
    """Estimate the worth of personalizing with the bundle in ``model`` and write it as JSON.

    Args:
        model: the bundle.
        training: the training set that it was fitted on.
        tables: the prepared data set: the campaign, the rule that splits, and the truth where it is known.
        out: JSON file of a :class:`~shadowprice.learning.worth.find.FoundWorth`.
        how: recipe and what follows it, as the bundle was trained.
        config: of the training loop, of which further models take :data:`EPOCHS` epochs at most.
        columns: folder with the columns of accounts that conditions read; None: conditions read none.

    Where rows are split by account and a side has no more than 100,000 of them, two further models are fitted, so that
    about two thirds of the accounts judge. Otherwise the test split judges the bundle alone. A flat policy personalizes
    nothing, and has learned from all rows: nothing is estimated.
    """
    served = load_sided(model)
    if not served.personal:
        flat = FoundWorth(absent="The policy is flat: nothing is personalized.")
        write_whole(out, to_json(flat))
        return flat
    with Stages("worth", len(EDGES) + 1) as stage:
        stage("load")
        dataset, data = load_dataset(tables), TrainingSet.load(training, JUDGED_ACCOUNTS)
        campaign = campaign_from_tables(dataset.tables, dataset.currency)
        traffic = fit_traffic(
            campaign, dataset.tables, {side: rows["account_id"] for side, rows in data.serving.items()}
        )
        expected = traffic.forecast(campaign).expected
        coverage = campaign.coverage() if columns is None else campaign.coverage().reading(columns)
        requests = {side: float(expected[side].sum()) for side in data.rows}
        how, few = choose_training(data.dataset, how), replace(config, epochs=min(config.epochs, EPOCHS))

        def fit(then: TrainingSet) -> SidedModel:
            stage("train on the accounts of an earlier part")
            return fit_model(then, how, few)[0]

        most = max(len(rows) for rows in data.serving.values())
        stage("judge")
        worth = find_worth(
            served,
            data,
            Terms(campaign, requests, coverage, traffic),
            fit=fit if dataset.split.by == "account" and most <= FITTED_ACCOUNTS else None,
            truth=dataset.truth,
        )
        write_whole(out, to_json(worth))
        return worth
