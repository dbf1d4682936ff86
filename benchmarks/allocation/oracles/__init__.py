"""Solvers to compare the engine with: HiGHS, sorted critical prices and the smoothed dual, each with a certificate."""
