"""The pipeline of vouchers: prepare → featurize → train → evaluate → register → measure → solve → publish."""

from pipelines.learning import first_pipeline

SHOWN = {
    "display_name": "Run a voucher campaign",
    "description": "Learn who redeems which voucher, and price the budget for it.",
}
vouchers_pipeline = first_pipeline("vouchers", SHOWN, "vouchers, whose visits are sessions", priced=True)
