"""A step in a Ray cluster of its own: KubeRay makes it for the job and removes it afterwards."""

from components.ray_job.step import run_step

__all__ = ["run_step"]
