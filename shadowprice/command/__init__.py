"""Commands: options from the fields of a dataclass, and failures in one line."""
