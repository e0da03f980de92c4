"""Operational logs in: tables of events and exposure, a failure model with its uncertainty, a scenario that runs."""
