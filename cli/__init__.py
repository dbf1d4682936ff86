"""The command ``shadowprice``: one name for every program of the repository."""
