"""Simulation of the path of money in virtual time: real stores and clients, seeded faults, a reference for each step."""
