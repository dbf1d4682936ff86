"""The delivery pipeline: prepare → featurize → train → evaluate → register → measure → solve → publish."""

from pipelines.learning import first_pipeline

SHOWN = {
    "display_name": "Deliver funds to accounts",
    "description": "Give every account a fund, each fund exactly its number.",
}
delivery_pipeline = first_pipeline("delivery", SHOWN, "funds, or tables with offers of kind fund", priced=True)
