"""``eval "$(python3.11 images/machine.py)"``: how buildah and podman are set up on a machine without a service manager.

SHADOWPRICE_IMAGE_CACHE, when set, is the folder of everything they keep: images with their layers, containers, volumes,
and the packages that builds have fetched. Without it they keep all this where they always do. Standard library only.
"""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

CACHE = "SHADOWPRICE_IMAGE_CACHE"
# Limits that an unprivileged host allows, and no systemd for groups and logs.
CONTAINERS = """[containers]
default_ulimits = ["nofile=20000:20000", "nproc=20000:20000"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
STORAGE = """[storage]
driver = "overlay"
graphroot = "{folder}/storage"
runroot = "{folder}/run"
"""


def settings(given: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Variables that buildah and podman need and the environment lacks.

    Args:
        given: the environment there is; what it settles stays.
        folder: where the files go that the settings name, without a cache.
    """
    files = {"CONTAINERS_CONF": CONTAINERS}
    found = {}
    if cache := given.get(CACHE):
        folder = Path(cache).resolve()
        files["CONTAINERS_STORAGE_CONF"] = STORAGE.format(folder=folder)
        # Caches that a build mounts lie beside its scratch.
        (folder / "scratch").mkdir(parents=True, exist_ok=True)
        found["TMPDIR"] = str(folder / "scratch")
    for name, text in files.items():
        if name not in given:
            path = folder / f"{name.lower()}.toml"
            path.write_text(text)
            found[name] = str(path)
    return found


if __name__ == "__main__":
    place = Path.home() / ".cache" / "shadowprice"
    place.mkdir(parents=True, exist_ok=True)
    for name, value in settings(os.environ, place).items():
        print(f"export {name}={shlex.quote(value)}")
