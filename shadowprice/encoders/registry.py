"""Encoders by name. A new one is a file here and a line in ``ENCODERS``."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from shadowprice.errors import NotFound

if TYPE_CHECKING:
    from shadowprice.encoders.base import GraphEncoder

ENCODERS = {
    "none": "shadowprice.encoders.none:NoGraphEncoder",
    "gcn2": "shadowprice.encoders.two_layers:Gcn2Encoder",
    "gat2": "shadowprice.encoders.two_layers:Gat2Encoder",
    "sage": "shadowprice.encoders.two_layers:SageEncoder",
    "sgc2": "shadowprice.encoders.sgc2:Sgc2Encoder",
    "graphconv": "shadowprice.encoders.two_layers:GraphConvEncoder",
}
GRAPH_ENCODER = "sgc2"
"""Encoder of a graph where none is named (decision record 27)."""


def make_encoder(name: str, **options: Any) -> GraphEncoder:
    """Build the encoder called ``name``; options are those of its class.

    Raises:
        NotFound: no encoder of that name.
    """
    if name not in ENCODERS:
        raise NotFound(f"encoder {name!r} is unknown; choose one of {sorted(ENCODERS)}")
    module, cls = ENCODERS[name].split(":")
    encoder: GraphEncoder = getattr(import_module(module), cls)(**options)
    return encoder
