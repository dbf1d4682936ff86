"""Active price and model: read from their stores, verified, swapped together without a restart."""

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread

from operations.common.workspace import alarms_on
from serving.predictor.active import Active, Beside, ServedModel
from serving.predictor.context import context_names
from serving.predictor.metrics import PredictorMetrics
from shadowprice.arms import WHOLE
from shadowprice.campaign import Campaign
from shadowprice.errors import InvalidInput, NotFound, PriceRejected, ShadowpriceError
from shadowprice.pacing.canary import PRICES, Canary
from shadowprice.pacing.price_rules import check_price, newest_usable
from shadowprice.pacing.price_store import PriceStore
from shadowprice.price import PriceRecord

logger = logging.getLogger("serving")


class PriceWatcher:
    """Follows the newest sound price of a campaign, and the model it was solved for.

    The price names its model: a newly registered model becomes active with the first price solved for it, in one step
    (:class:`serving.predictor.active.Active`). The watcher never returns to an older version. A
    record that fails its checksum, breaks a rule of :func:`~shadowprice.pacing.price_rules.check_price`,
    or names a model that is missing, damaged or unfit is ignored, and the active pair stays;
    the metrics count each such version once. A reader takes :attr:`current` once per call.

    Args:
        store, campaign: where to look, and whose prices may decide.
        load_model: gives the model of a version, loaded and warm; NotFound or InvalidInput when there
            is none that may be used, Unavailable when it is worth asking again.
        metrics: get every price that becomes active, each refused version, the number of skipped files at every read,
        and the share of each canary that begins, changes or ends.
        poll_seconds: how often the store is looked at.
        workspace: folder where a canary is named and the watch keeps its verdict; None: nobody looks there. Price and
            model of a canary are followed likewise, and where one of them may not be used it decides for nobody. The
            verdict is read if the campaign has another exploration while the watch alarms.
    """

    def __init__(
        self,
        store: PriceStore,
        campaign: Campaign,
        *,
        load_model: Callable[[str], ServedModel],
        metrics: PredictorMetrics,
        poll_seconds: float,
        workspace: Path | None = None,
    ) -> None:
        self.current: Active | None = None
        self._store = store
        self._campaign = campaign
        self._name = campaign.name
        self._load_model = load_model
        self._metrics = metrics
        self._poll_seconds = poll_seconds
        self._workspace = workspace
        self._trial_prices = PriceStore(store.root / PRICES)
        self._rejected: set[int] = set()
        self._earlier: set[int] = set()
        self._complaint = ""
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="price-watcher", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching; the active price stays."""
        self._stopping.set()
        self._thread.join()

    def poll(self) -> None:
        """Read the store once. Where it fails, the active price stays."""
        try:
            versions = self._store.versions(self._name)
            strays = self._store.strays(self._name)
        except (ShadowpriceError, OSError) as error:
            self._complain(str(error))
            return
        passed_over = Counter(unsound=len(strays))
        if strays:
            self._complain(strays[0])
        active = 0 if self.current is None else self.current.price.version
        if versions and versions[-1] < active:
            passed_over["older"] += 1
            self._reject(versions[-1], "older", f"the store went back to version {versions[-1]}; {active} stays active")
        ahead = [version for version in versions if version > active and version not in self._earlier]
        for version in reversed(ahead):
            usable = self._usable(version)
            if isinstance(usable, Active):
                beside = None if self.current is None else self.current.beside
                self.current = replace(usable, beside=beside)
                self._metrics.active_price(usable.price)
                logger.info(
                    "price version %d of slot %d is active, with model %s",
                    usable.price.version,
                    usable.price.slot,
                    usable.model.version,
                )
                break
            if usable is not None:
                passed_over[usable] += 1
        if self.current is None and self._earlier:
            self._complain(
                f"version {max(self._earlier)} is of an earlier window than that from "
                f"{self._campaign.starts_at.isoformat()}, which has no price yet; solve one"
            )
        self._metrics.prices_passed_over(passed_over)
        if self.current is not None and self._workspace is not None:
            self._follow(self.current, self._workspace)
            self._heed(self.current, self._workspace)

    def _heed(self, active: Active, workspace: Path) -> None:
        """Read whether the watch alarms on the active model; a damaged verdict changes nothing."""
        if self._campaign.in_doubt() == self._campaign:
            return
        try:
            alarmed = alarms_on(workspace, self._name, active.model.version)
        except InvalidInput as error:
            self._complain(f"no verdict of the watch: {error}")
            return
        if alarmed != active.alarmed:
            self.current = replace(active, alarmed=alarmed)
            state = "alarms on" if alarmed else "has no alarm on"
            logger.info("the watch %s model %s", state, active.model.version)

    def _follow(self, active: Active, workspace: Path) -> None:
        """Read the canary that the workspace names, with its newest price."""
        beside: Beside | None = None
        try:
            canary = Canary.read(workspace, self._name)
            if canary is not None and canary.share and canary.model_version != active.model.version:
                beside = self._beside(canary, active)
        except ShadowpriceError as error:
            self._complain(f"no canary: {error}")
        if beside != active.beside:
            self.current = replace(active, beside=beside)
            share = 0 if beside is None else beside.canary.share
            self._metrics.canary_share(share / WHOLE)
            label = "no canary" if beside is None else f"canary {beside.canary.model_version} at {share / WHOLE:.2%}"
            logger.info("%s, price version %s", label, "-" if beside is None else beside.pair.price.version)

    def _beside(self, canary: Canary, active: Active) -> Beside | None:
        """The canary with its price and model; None while it has no price.

        Raises:
            InvalidInput, NotFound, Unavailable: its model may not be used, or not now.
        """
        records = (
            price for price in self._trial_prices.sound(self._name) if price.model_version == canary.model_version
        )
        record = newest_usable(records, self._campaign, datetime.now(UTC))
        if record is None:
            return None
        before = active.beside
        known = before is not None and before.pair.model.version == canary.model_version
        model = before.pair.model if before is not None and known else self._load_model(canary.model_version)
        own, read = context_names(model), context_names(active.model)
        if own != read:
            raise InvalidInput(f"reads the context {own} and the served model {read}", field=canary.model_version)
        return Beside(canary, Active(record, model))

    def _usable(self, version: int) -> Active | str | None:
        """Return a version with its model, or why it is rejected; None where it is older or cannot be read now."""
        record: PriceRecord | None = None
        try:
            record = self._store.read(self._name, version)
            if record.window is not None and record.window < self._campaign.starts_at:
                self._earlier.add(version)
                return None
            check_price(record, self._campaign, datetime.now(UTC))
            return Active(record, self._model_of(record))
        except PriceRejected as error:
            return self._reject(version, "unsound", str(error))
        except (NotFound, InvalidInput) as error:
            named = "" if record is None else f" is of model {record.model_version!r}"
            return self._reject(version, "model", f"version {version}{named}: {error}")
        except ShadowpriceError as error:
            self._complain(str(error))
            return None

    def _model_of(self, record: PriceRecord) -> ServedModel:
        if self.current is not None and self.current.model.version == record.model_version:
            return self.current.model
        return self._load_model(record.model_version)

    def _reject(self, version: int, kind: str, reason: str) -> str:
        if version not in self._rejected:
            self._rejected.add(version)
            self._metrics.price_rejected(kind)
            logger.error("price rejected: %s", reason)
        return kind

    def _complain(self, reason: str) -> None:
        if reason != self._complaint:
            self._complaint = reason
            logger.error("price store: %s", reason)

    def _run(self) -> None:
        while True:
            try:
                self.poll()
            except Exception:  # the watcher must outlive any single look
                logger.exception("looking for a new price failed")
            if self._stopping.wait(self._poll_seconds):
                return
