"""A job in a Ray cluster of its own: KubeRay makes it for the job and removes it afterwards."""

from components.ray_job.exchange import run_job

__all__ = ["run_job"]
