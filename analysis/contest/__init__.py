"""Contests: variants simulated side by side on the same failures, with as many replications as a question needs."""
