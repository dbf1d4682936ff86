"""Ray: an instance of it on this machine, and actors that share the parts of a large work."""
