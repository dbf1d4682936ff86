"""Joint model of customers and merchants (S0): one graph encoder, one response layer per side."""
