"""Pace a campaign through its window: the spend so far, the requests to come, and the next price.

``price_store`` keeps published prices, and ``spend`` and ``prometheus`` read the spend. ``forecast`` estimates the
requests to come. ``window`` and ``resolve`` turn both into the next price, at the times that ``pacers`` set.
``replay`` runs whole days, and ``exploration`` measures cost and benefit of draws.
"""
