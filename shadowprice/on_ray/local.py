"""Start Ray on this machine, also when the machine is busy."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from shadowprice.errors import Unavailable

ATTEMPTS = 4
"""Ray waits a fixed 30 s for its own processes, which a busy machine does not always start in that time."""

LONGEST = 36
"""Characters of the folder that Ray makes its sockets below: their paths are 70 longer, and the system takes 107."""


def start_ray(ray: Any, **options: Any) -> None:
    """Call ``ray.init`` with ``options``, and again when Ray's processes did not start in time.

    Args:
        ray: the imported module.
        options: of ``ray.init``; Ray prints nothing but errors.

    Raises:
        Unavailable: Ray's processes did not start in any attempt.
    """
    if len(tempfile.gettempdir()) > LONGEST:
        os.environ.setdefault("RAY_TMPDIR", "/tmp")
    for _ in range(ATTEMPTS):
        try:
            ray.init(log_to_driver=False, logging_level="ERROR", **options)
        except Exception as error:
            ray.shutdown()
            # Ray raises a bare Exception here, so only its text tells it from other failures.
            if "timed out during startup" not in str(error):
                raise
            last = error
        except BaseException:
            ray.shutdown()
            raise
        else:
            return
    raise Unavailable(f"Ray did not start in {ATTEMPTS} attempts; is the machine overloaded? Ray said: {last}")
