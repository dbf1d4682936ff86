"""Pacing a campaign through its window: what was spent, what is still to come, and the next price.

``price_store`` keeps published prices, ``spend`` and ``prometheus`` read what was spent,
``forecast`` says what is still to come, ``resolve`` turns both into the next price; ``day``,
``outcomes``, ``replay`` and ``policies`` run a whole day of it.
"""
