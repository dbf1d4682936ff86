"""One price of money for several campaigns: the dual one level up."""
