"""Pacing a campaign through its window: what was spent, what is still to come, and the next price.

``price_store`` keeps published prices, ``spend`` and ``prometheus`` read what was spent,
``forecast`` says what is still to come, ``window`` and ``resolve`` turn both into the next price, and
``pacers`` say when; ``day``, ``outcomes``, ``replay``, ``policies``, ``compare`` and ``scenarios`` run
whole days of it; ``exploration`` says what uniform draws cost and bought.
"""
