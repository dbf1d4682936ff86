"""The models a price may name: loaded, checked and warm."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Lock

import numpy as np

from serving.http.limits import MAX_MODELS
from serving.predictor.active import ServedModel
from serving.predictor.bundle import Bundle, find_bundle, load_bundle, read_version
from serving.predictor.features import Features
from shadowprice.campaign import Campaign
from shadowprice.campaign.session import SESSION, SESSION_ACTIONS
from shadowprice.errors import Unavailable
from shadowprice.policy import Choices
from shadowprice.responses.layers.heads import curves_of
from shadowprice.responses.layers.request import embed_requests


class Models:
    """Loads models by version, from the folder that ``pointer`` leads to or from ``models/<version>`` beside it.

    The two loaded last are kept: a canary decides beside the served model. Safe to share between threads.

    open_features  features of a bundle's accounts
    """

    def __init__(self, pointer: Path, campaign: Campaign, open_features: Callable[[Bundle], Features]) -> None:
        self._pointer = pointer
        self._campaign = campaign
        self._open_features = open_features
        self._loading = Lock()
        self._kept: dict[str, ServedModel] = {}

    def newest(self) -> ServedModel:
        """The model that was registered last. Raises as :meth:`load` does."""
        return self.load(read_version(self._pointer))

    def load(self, version: str) -> ServedModel:
        """The model of this version, with everything it needs run once.

        Raises:
            NotFound: there is no such model, or it is not registered with the feature store.
            InvalidInput: its files are damaged, or it does not fit the campaign.
            Unavailable: the feature store does not answer.
        """
        with self._loading:
            if version not in self._kept:
                bundle = load_bundle(find_bundle(self._pointer, version), self._campaign)
                served = ServedModel(version, bundle.heads, self._open_features(bundle), bundle.towers)
                self._kept[version] = self._warm(served)
                self._kept = dict(list(self._kept.items())[-MAX_MODELS:])
            return self._kept[version]

    def _warm(self, model: ServedModel) -> ServedModel:
        """Run everything but the ledger once for each side, so that the first caller does not wait for it."""
        for side in self._campaign.sides:
            embeddings = model.features.read(side, ["warm-up"])
            if embeddings.failed:
                raise Unavailable("the feature store does not answer")
            # Reading a session sorts its words, which takes long the first time. Other towers read none.
            session = {SESSION: [[{"item_id": "warm-up", "action": SESSION_ACTIONS[0]}]]}
            bare = np.zeros(1, dtype=np.bool_)
            embedded = embed_requests(model.towers.get(side), embeddings.matrix, session, bare, None)
            curves = replace(curves_of(model.heads[side], embedded), worth=np.ones(1))
            choices = Choices.marked(self._campaign, side, curves)
            choices.decide([0.0] * len(self._campaign.priced), 0.0, ["warm-up"])
        return model
