"""Commands about several campaigns together."""
