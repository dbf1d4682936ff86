"""Amounts of responses: their losses (S2), and the head that learns them beside a response layer."""
