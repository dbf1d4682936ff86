"""A first mapping of a user's own files, proposed from their content."""

from shadowprice.mapping.proposal.propose import propose
from shadowprice.mapping.proposal.text import CHECK, write_mapping
from shadowprice.mapping.proposal.vouchers import propose_vouchers

__all__ = ["CHECK", "propose", "propose_vouchers", "write_mapping"]
