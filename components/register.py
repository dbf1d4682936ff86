"""Make a model that passed the gate the one that is served, and refuse any other."""

from kfp import dsl
from kfp.dsl import HTML, Artifact, Input, Model, Output

from components import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def register(
    model: Input[Model],
    registered: Output[Artifact],
    workspace: str,
    evaluation: Input[Artifact] = None,
    pipeline_run: str = "",
    options: dict = {},  # noqa: B006 - kfp reads the default from the signature
) -> str:
    """Run a :class:`operations.register.RegisterJob` and return the version of the model."""
    arguments = dict(locals())
    from components.run import run_component

    return run_component("register", arguments)


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def gate_refused(model: Input[Model], workspace: str, evaluation: Input[Artifact], page: Input[HTML]) -> None:
    """Fail with the rules that the model breaks; ``page`` says what would mend each."""
    print(f"what would mend each rule: {page.uri}")
    arguments = {"model": model, "workspace": workspace, "evaluation": evaluation}
    from components.run import run_component

    run_component("register", arguments)
