"""Pipelines on this machine with ``kfp.local``: processes, progress, and the steps that an interrupted run has done."""

from pipelines.local.finished import Took
from pipelines.local.run import PATHS, PIPELINES, Pipeline, PipelineFailed, compile_pipelines, pipeline_of, run

__all__ = ["PATHS", "PIPELINES", "Pipeline", "PipelineFailed", "Took", "compile_pipelines", "pipeline_of", "run"]
