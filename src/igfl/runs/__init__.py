"""Runs: one configuration, one folder, and how a training goes on from there, bit for bit."""
