"""Executors of a solve: this process, or actors of Ray (:mod:`shadowprice.allocation.executors.ray`)."""

from shadowprice.allocation.executors.base import Executor, InProcess

__all__ = ["Executor", "InProcess"]
