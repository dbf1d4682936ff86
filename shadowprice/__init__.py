"""shadowprice: spend an incentive budget well, at the price of money that makes the budget bind."""

__version__ = "0.1.0"
