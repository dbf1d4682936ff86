"""``python -m serving.stream``: send the decision log of one campaign to a sink of CloudEvents."""

import logging
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from serving.http.logs import quiet_logs
from serving.http.probes import Probes, probing
from serving.settings import Settings, setting
from serving.stream.sink import Sink
from serving.stream.stream import Stream
from shadowprice.command.failures import Misused
from shadowprice.errors import NotFound, Unavailable
from shadowprice.files import lock_file
from shadowprice.lifeline import end_with_parent

logger = logging.getLogger("serving")


@dataclass(frozen=True, kw_only=True)
class StreamSettings(Settings, program="serving.stream"):
    """Send decisions, outcomes and corrections to a sink as CloudEvents, each at least once."""

    log_dir: Path = setting("folder of the campaign's decision log", variable="STREAM_LOG_DIR")
    campaign: str = setting("name of the campaign", variable="STREAM_CAMPAIGN")
    sink_url: str = setting("address of the sink, which takes CloudEvents by POST")
    cursor_file: Path = setting("file that keeps what the sink has taken", variable="STREAM_CURSOR_FILE")
    sink_token_file: str = setting("file with a bearer token for the sink; empty: none is shown", "")
    sink_ca_file: str = setting("certificates of the sink's authority; empty: the system's", "")
    batch: int = setting(
        "most events of one call, in the batched mode; 1: one event a call, in the structured mode",
        100,
        variable="STREAM_BATCH",
        positive=True,
    )
    poll_seconds: float = setting("how often the log is looked at", 1.0, variable="STREAM_POLL_SECONDS", positive=True)
    probe_host: str = setting("address for probes and metrics", "127.0.0.1", variable="STREAM_PROBE_HOST")
    probe_port: int = setting("port for probes and metrics; 0: none", 0)
    once: bool = setting("end when all that is logged was taken", False)

    def check(self) -> None:
        """Raise :class:`~shadowprice.command.failures.Misused` for an address that cannot be."""
        if not self.sink_url.startswith(("http://", "https://")):
            raise Misused(f"--sink-url must be an http or https address, got {self.sink_url!r}")


def _run(settings: StreamSettings) -> int:
    """Send until told to stop; a sink that refuses events ends the stream."""
    end_with_parent()
    quiet_logs()
    ended = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    settings.cursor_file.parent.mkdir(parents=True, exist_ok=True)
    lock = settings.cursor_file.with_name(f".{settings.cursor_file.name}.lock")
    if lock_file(lock) is None:
        raise Unavailable(f"another stream has the cursor {settings.cursor_file}")
    stream = Stream(
        log=settings.log_dir,
        sink=Sink(settings.sink_url, settings.sink_token_file, settings.sink_ca_file),
        cursor=settings.cursor_file,
        campaign=settings.campaign,
        batch=settings.batch,
        wait=ended.wait,
    )
    total = 0
    with probing(settings.probe_host, settings.probe_port, Probes(lambda: 0.0, dict, stream.registry)):
        absent = False
        while True:
            try:
                sent = stream.send_new()
            except NotFound as error:
                # The ledger makes the folder with its first segment.
                if settings.once:
                    raise
                if not absent:
                    logger.warning("%s yet", error)
                sent, absent = 0, True
            total += sent or 0
            if sent is None or settings.once or ended.wait(settings.poll_seconds):
                break
    print(f"the sink took {total:,} events; the next run goes on from {settings.cursor_file}", flush=True)
    return 0


main = StreamSettings.main_of(_run, failure="the stream has ended")

if __name__ == "__main__":
    sys.exit(main())
