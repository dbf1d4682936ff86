"""Judge the model on the test split and decide whether it may be used."""

from kfp import dsl
from kfp.dsl import HTML, Artifact, Dataset, Input, Markdown, Metrics, Model, Output

from components import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def evaluate(
    model: Input[Model],
    training: Input[Dataset],
    tables: Input[Dataset],
    metrics: Output[Metrics],
    page: Output[HTML],
    summary: Output[Markdown],
    evaluation: Output[Artifact],
    worth: Input[Artifact] = None,
    workspace: str = "",
    options: dict = {},  # noqa: B006 - kfp reads the default from the signature
) -> bool:
    """Run a :class:`operations.evaluate.EvaluateJob` and return whether the model may be used."""
    arguments = dict(locals())
    from components.run import run_component

    return run_component("evaluate", arguments)
