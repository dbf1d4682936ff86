"""Graphs and histories of voucher sessions in one pass there and one back each, in C.

A graph's few nodes stay in the first cache from their inputs to its readout, and who hears whom follows from its length
alone: nothing is built for a batch. :mod:`shadowprice.encoders.voucher_graph` and
:mod:`shadowprice.encoders.history` have the same in torch, for where this was not built; tests hold one to the other.
``SHADOWPRICE_KERNEL=numpy`` leaves it out.
"""
