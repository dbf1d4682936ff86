"""The container image of every component."""

import os

from shadowprice import __version__

BASE_IMAGE = os.environ.get("SHADOWPRICE_PIPELINE_IMAGE", f"shadowprice/pipeline:{__version__}")
"""Set ``SHADOWPRICE_PIPELINE_IMAGE`` when compiling to point at your own registry."""
