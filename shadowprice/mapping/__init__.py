"""A user's own files and columns, described by one YAML file, as canonical tables."""

from shadowprice.mapping.description import Mapping, read_mapping
from shadowprice.mapping.sessions import map_sessions
from shadowprice.mapping.tables import map_tables

__all__ = ["Mapping", "map_sessions", "map_tables", "read_mapping"]
