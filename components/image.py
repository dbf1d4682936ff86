"""The container image of every component."""

import os

from shadowprice import __version__

IMAGE = "SHADOWPRICE_PIPELINE_IMAGE"
"""Environment variable that names another image, such as that of your own registry, when a pipeline is compiled."""
BASE_IMAGE = os.environ.get(IMAGE, f"shadowprice/pipeline:{__version__}")
