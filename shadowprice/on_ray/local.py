"""Start Ray on this machine, also when the machine is busy."""

import os
import tempfile
from typing import Any

from shadowprice.errors import Unavailable

ATTEMPTS = 4
"""Ray waits a fixed 30 s for its own processes, which a busy machine does not always start in that time."""

LONGEST = 36
"""Characters of the folder that Ray makes its sockets below: their paths are 70 longer, and the system takes 107."""


def join_ray(ray: Any, cores: int = 0, address: str | None = None) -> bool:
    """Connect this process to Ray, unless it is: to a cluster, or to one that starts on this machine.

    Args:
        ray: the imported module.
        cores: that a Ray of this machine offers at least; 0 leaves it to Ray.
        address: of a cluster; by default that of ``RAY_ADDRESS``.

    Returns:
        True where this call connected, so that its caller has to shut Ray down.
    """
    if ray.is_initialized():
        return False
    given: dict[str, Any] = {"address": address} if address else {}
    if not address and "RAY_ADDRESS" not in os.environ:
        given = {"include_dashboard": False} | ({"num_cpus": max(os.cpu_count() or 1, cores)} if cores else {})
    start_ray(ray, **given)
    return True


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
