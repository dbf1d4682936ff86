"""Simulation of the path of money in virtual time: real stores, seeded faults, and a reference for each step."""
