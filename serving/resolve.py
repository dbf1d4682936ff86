"""``python -m serving.resolve``: measure, solve and publish once, as the hourly job of a cluster does."""

import json
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from operations import measure, publish, solve
from serving.http.logs import quiet_logs
from serving.settings import Settings, setting, setting_of
from shadowprice.errors import Conflict


@dataclass(frozen=True, kw_only=True)
class ResolveSettings(Settings, program="serving.resolve"):
    """Solve the price again, once."""

    workspace: Path = setting("folder with campaign, model, features and prices")
    ledger_url: str = setting_of(measure.MeasureJob, "ledger_url")
    prometheus_url: str = setting_of(measure.MeasureJob, "prometheus_url")
    prometheus_labels: str = setting_of(measure.MeasureJob, "prometheus_labels")
    prometheus_token_file: str = setting_of(measure.MeasureJob, "prometheus_token_file")
    prometheus_ca_file: str = setting_of(measure.MeasureJob, "prometheus_ca_file")
    on_alarm: str = setting_of(solve.SolveJob, "on_alarm")
    log_dir: Path | None = setting(
        "folder of the decision log, whose head is sealed in the price; that of a run on one machine if left out",
        None,
        variable="LEDGER_LOG_DIR",
    )
    json: bool = setting("print the result as JSON", False)


def _resolve(settings: ResolveSettings) -> int:
    """Return 0 when a price is published or another solver was first; any failure is 1, and the last price stays."""
    quiet_logs()
    options = asdict(settings)
    workspace, on_alarm, as_json = options["workspace"], options.pop("on_alarm"), options.pop("json")
    log = options.pop("log_dir")
    with tempfile.TemporaryDirectory(prefix="resolve-") as scratch:
        state, price = Path(scratch) / "state.json", Path(scratch) / "price"
        try:
            measure.run(measure.MeasureJob(state=state, **options))
            record = solve.run(solve.SolveJob(state=state, price=price, workspace=workspace, on_alarm=on_alarm))
            version = publish.run(publish.PublishJob(price=price, workspace=workspace, log=log))
        except Conflict as error:
            print(json.dumps({"version": None}) if as_json else f"another solver was first: {error}")
            return 0
    if as_json:
        summary = {"version": version, "slot": record.slot, "prices": dict(record.prices), "gap": record.gap}
        print(json.dumps(summary))
        return 0
    print(f"published version {version} for slot {record.slot}: {dict(record.prices)}, gap {record.gap:.1e}")
    return 0


main = ResolveSettings.main_of(_resolve, failure="no new price, the last one stays")

if __name__ == "__main__":
    sys.exit(main())
