"""Logistic regression on the isotonic embedding of the level (S1, section 5, a baseline).

    logit f(x, d_j) = b + β·x + Σ_{k ≤ j} w_k,   w ≥ 0

One curve for all in logits, shifted by the features. The fit is convex; without features it is the pooled
adjacent violators' solution, because both are the maximum of the same likelihood over monotone curves.
"""

from __future__ import annotations

import numpy as np

from shadowprice.responses.tabular.isotonic import isotonic_embedding
from shadowprice.responses.tabular.lr import Array, LogisticRegression


class IsotonicLogisticRegression(LogisticRegression):
    """:class:`~shadowprice.responses.tabular.lr.LogisticRegression` whose curves never fall in the level."""

    monotone = True
    ordered = True
    lowest_weight = 0.0

    def embedding(self) -> Array:
        """(J, J − 1): a 1 for every level up to and with the row's, the lowest left out."""
        return isotonic_embedding(self.levels.size)

    def start(self, logits: Array) -> Array:
        """(J,): never falling."""
        return np.asarray(np.maximum.accumulate(logits))
