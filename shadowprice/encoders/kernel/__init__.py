"""Voucher sessions in C: what a step reads is listed, graphs and histories take one pass there and one back each.

A graph's few nodes stay in the first cache from their inputs to its readout, and who hears whom follows from its length
alone: nothing is built for a batch. The same in torch and numpy, for where this was not built, are
:mod:`shadowprice.encoders.voucher_graph`, :mod:`shadowprice.responses.vouchers.dmbgn_history` and
:mod:`shadowprice.responses.vouchers.dmbgn_lists`; tests hold one to the other.
``SHADOWPRICE_KERNEL=numpy`` leaves it out.
"""
