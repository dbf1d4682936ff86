"""Rules over several columns: keys, references between tables, sides that must agree.

A file of rules registers them when it is imported; they run in this order.
"""

from shadowprice.tables.rules import offers  # isort: skip
from shadowprice.tables.rules import events  # isort: skip
from shadowprice.tables.rules import campaign  # isort: skip
from shadowprice.tables.rules import vouchers  # isort: skip
from shadowprice.tables.rules.rule import FUND, VOUCHER, find_broken

__all__ = ["FUND", "VOUCHER", "campaign", "events", "find_broken", "offers", "vouchers"]
