"""The research wing: what the papers claim, measured again, with the methods and data that only this needs."""
