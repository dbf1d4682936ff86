"""A first mapping of a user's own files, proposed from their content."""

from shadowprice.mapping.proposal.propose import Proposal, propose
from shadowprice.mapping.proposal.text import CHECK, write_mapping

__all__ = ["CHECK", "Proposal", "propose", "write_mapping"]
