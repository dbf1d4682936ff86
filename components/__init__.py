"""Kubeflow Pipelines components: each builds one job from its arguments and runs it.

A parameter means what the field of that name means in the job; ``metrics`` gets its figures, and ``options`` holds the
fields that may be left out.
"""

import os

from shadowprice import __version__

IMAGE = "SHADOWPRICE_PIPELINE_IMAGE"
"""Environment variable that names another image, such as that of your own registry, when a pipeline is compiled."""
BASE_IMAGE = os.environ.get(IMAGE, f"shadowprice/pipeline:{__version__}")
"""Container image of every component."""
