"""The isotonic embedding of an incentive level and the smoothness of its weights (S1, sections 3.2 and 3.3)."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

LOG_RATIO = 20.0
"""Largest difference of log weights that the smoothness sees: beyond it the loss would overflow."""


def isotonic_embedding(levels: int) -> NDArray[np.float64]:
    """(J, J − 1): row j holds e_k(d_j) = 1 for k ≤ j, k = 1 … J − 1.

    With non-negative weights the weighted sum never falls as the level rises. The column of the lowest level would be
    1 on every row, a second intercept, so it is left out.
    """
    return np.tri(levels)[:, 1:]


def smoothness(weight: Tensor) -> Tensor:
    """(n,): mean over neighbors of (a − b)² / (a·b), for weights (n, K) > 0; zero iff all of a row are equal.

    As 4 sinh²((ln a − ln b) / 2), the same number, which neither overflows nor divides 0 by 0. Rescaling a row
    changes nothing. (n,) zeros for K < 2.
    """
    if weight.shape[1] < 2:
        return weight.new_zeros(weight.shape[0])
    logarithm = torch.log(weight)
    ratio = torch.clamp(logarithm[:, 1:] - logarithm[:, :-1], -LOG_RATIO, LOG_RATIO)
    return (4.0 * torch.sinh(0.5 * ratio) ** 2).mean(dim=1)
