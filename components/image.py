"""The container image of every component."""

import os

BASE_IMAGE = os.environ.get("SHADOWPRICE_PIPELINE_IMAGE", "shadowprice-pipeline:0.1.0")
"""Set ``SHADOWPRICE_PIPELINE_IMAGE`` when compiling to point at your own registry."""
