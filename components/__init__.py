"""Kubeflow Pipelines components: each is one step, parses its arguments and calls one library function."""
