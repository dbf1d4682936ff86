"""Settings of a pipeline: the options of its jobs in one object, which the first step checks and splits."""

from components.settings.options import options_of
from components.settings.split import split

__all__ = ["options_of", "split"]
