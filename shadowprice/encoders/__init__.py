"""Networks that read a graph and give every account an embedding."""
