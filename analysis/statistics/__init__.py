"""Estimates, intervals and differences of many replications."""
