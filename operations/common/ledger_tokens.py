"""Environment variable of the ledger and of all its callers: the file with the tokens."""

TOKEN_VARIABLE = "SHADOWPRICE_LEDGER_TOKEN_FILE"
