"""Kubeflow Pipelines components: each builds one job from its arguments and runs it.

A parameter means what the field of that name means in the job; ``metrics`` gets its figures.
"""
