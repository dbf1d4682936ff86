"""Step 2: write the features into Feast and read the training set back, point in time."""

from kfp import dsl
from kfp.dsl import Dataset, Input, Output

from components.image import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def featurize(tables: Input[Dataset], training: Output[Dataset], workspace: str, weighting: str = "none") -> None:
    """Store profiles and interactions in Feast, join them to the labels as of each request, snapshot the graph.

    Args:
        tables: from the prepare step.
        training: labelled rows with their split, graph snapshots, and the accounts to serve.
        workspace: folder that outlives the run: feature repo, campaign, traffic.
        weighting: none, known or fitted: the propensities whose inverse weights the labelled rows.
    """
    from pathlib import Path

    from feature_repo.featurize import featurize as step

    training.metadata.update(step(Path(tables.path), Path(workspace), Path(training.path), weighting=weighting))
