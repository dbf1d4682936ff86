"""Packages of a wheel: the library, and below ``shadowprice/_platform`` the folders that run it.

A wheel adds one top-level name to an environment. An editable install adds the repository itself to the path, so
every folder keeps its own name (docs/decisions/0021-images.md). All else is in pyproject.toml.
"""

import sys

from setuptools import find_packages, setup

LIBRARY = ["shadowprice", "shadowprice.*"]
PLATFORM = ["cli", "components", "feature_repo", "operations", "pipelines", "serving"]

library = find_packages(include=LIBRARY)
platform = find_packages(include=[pattern for name in PLATFORM for pattern in (name, f"{name}.*")])

if "editable_wheel" in sys.argv:
    setup(packages=library, package_dir={"": "."})
else:
    tops = [name for name in platform if "." not in name]
    setup(
        packages=library + [f"shadowprice._platform.{name}" for name in platform],
        package_dir={f"shadowprice._platform.{name}": name for name in tops},
    )
