"""Kubeflow pipelines: their steps and the order of the steps."""
