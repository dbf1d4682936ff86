"""Judge the model on the test split and decide whether it may be used."""

from kfp import dsl
from kfp.dsl import HTML, Artifact, Dataset, Input, Markdown, Metrics, Model, Output

from components.image import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def evaluate(
    model: Input[Model],
    training: Input[Dataset],
    tables: Input[Dataset],
    metrics: Output[Metrics],
    page: Output[HTML],
    summary: Output[Markdown],
    evaluation: Output[Artifact],
    workspace: str = "",
    beat_incumbent: bool = True,
    beat_uniform: bool = True,
) -> bool:
    """Run a :class:`operations.evaluate.EvaluateJob` and return whether the gate is passed."""
    arguments = dict(locals())
    from components.run import run_component

    return run_component("evaluate", arguments)
