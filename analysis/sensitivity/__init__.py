"""Sensitivity: which of the things that vary move a metric, and how much of its scatter is luck."""
