"""Lists: one decision for each of many accounts, in a file for an e-mail or push tool."""
