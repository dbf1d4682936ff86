"""The training pipeline: prepare → featurize → train → worth → evaluate → register; it fails if the gate refuses."""

from pipelines.learning import first_pipeline

SHOWN = {
    "display_name": "Train and serve a model",
    "description": "Learn how every account responds to each incentive value.",
}
train_pipeline = first_pipeline("train", SHOWN, "world, tables, o2o, thornton or promotion", tell_worth=True)
