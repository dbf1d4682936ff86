"""Kubeflow pipelines: which steps, in which order."""
