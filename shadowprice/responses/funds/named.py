"""S2's models and baselines by name: which body, which loss, what they read."""

from shadowprice.responses.funds.model import FundModel


class EsdpmModel(FundModel):
    """ESDPM: self-attention over behaviour, GAT over the consumption graph, MMoE, pCTR·pCVR, mu and sigma; ESJ."""

    own_loss = "esj"
    needs = ("snapshots", "behaviours")


class EsdpmNcgModel(FundModel):
    """ESDPM without the consumption graph."""

    own_loss = "esj"
    needs = ("behaviours",)


class EsmmModel(FundModel):
    """Conversions alone over the entire space (Ma et al. 2018), on S2's MMoE body."""

    own_loss = "conversion"


class MmoeModel(FundModel):
    """MMoE with a conversion and a value tower, no chain of clicks (Ma et al. 2018)."""

    own_loss = "mse"
    product = False


class SharedBottomModel(FundModel):
    """Three shared layers with a conversion and a value tower."""

    own_loss = "mse"
    product = False
    body = "shared_bottom"


class DnnConversionModel(FundModel):
    """DNN-C: one task, the conversion."""

    own_loss = "conversion"
    product = False
    body = "plain"


class DnnValueModel(FundModel):
    """DNN-V: one task, the log-amount of a delivery; its curve is a score and not a probability."""

    own_loss = "value"
    product = False
    body = "plain"
    calibrated = False


class ZilnModel(FundModel):
    """MTL-ZILN: ESDPM's network with the zero-inflated lognormal loss."""

    own_loss = "ziln"


class SquaredErrorModel(FundModel):
    """MTL-MSE: ESDPM's network without the sigma tower."""

    own_loss = "mse"
