"""Store the response of everybody to every voucher on offer."""

from kfp import dsl
from kfp.dsl import Dataset, Input, Model, Output

from components import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def curves(tables: Input[Dataset], training: Input[Dataset], model: Input[Model], bundle: Output[Model]) -> None:
    """Run a :class:`operations.curves.CurvesJob`."""
    arguments = dict(locals())
    from components.run import run_component

    bundle.metadata["model_version"] = run_component("curves", arguments)
