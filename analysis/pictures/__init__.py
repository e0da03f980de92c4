"""Figures of the documentation."""
