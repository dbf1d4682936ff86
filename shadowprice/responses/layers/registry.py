"""Response layers by name. A new one is a file here and a line in ``LAYERS``."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shadowprice.errors import NotFound

if TYPE_CHECKING:
    from shadowprice.responses.layers.base import ResponseLayer

LAYERS = {
    "hazard": "shadowprice.responses.layers.hazard:HazardLayer",
    "cox": "shadowprice.responses.layers.cox:CoxLayer",
    "sbbm": "shadowprice.responses.layers.sbbm:SbbmLayer",
    "dssm_c": "shadowprice.responses.layers.dssm_c:DssmLayer",
    "gradient_logit": "shadowprice.responses.layers.gradient_logit:GradientLogitLayer",
    "linear": "shadowprice.responses.layers.linear:LinearLayer",
}


def make_layer(name: str, width: int, levels: NDArray[np.int64], **options: Any) -> ResponseLayer:
    """Build the response layer called ``name`` over embeddings of ``width``.

    Raises:
        NotFound: no layer of that name.
    """
    if name not in LAYERS:
        raise NotFound(f"response layer {name!r} is unknown; choose one of {sorted(LAYERS)}")
    module, cls = LAYERS[name].split(":")
    layer: ResponseLayer = getattr(import_module(module), cls)(width, levels, **options)
    return layer
