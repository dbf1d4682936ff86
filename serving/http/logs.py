"""Logging of the services: what happened once, never a line per request."""

import logging


def quiet_logs() -> None:
    """Log own messages from INFO on and others from WARNING on, to standard error.

    KServe logs every unready answer with a traceback; the answer says the same.
    """
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    logging.getLogger("serving").setLevel(logging.INFO)
    kserve = logging.getLogger("kserve")
    kserve.setLevel(logging.CRITICAL)
    # With a handler of ours, KServe does not bring its own configuration.
    kserve.addHandler(logging.NullHandler())
