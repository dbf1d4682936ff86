"""One file per table; each has a ``TABLE``."""
