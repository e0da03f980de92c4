"""Optimisation: the best of what can be chosen in a study, under conditions, confirmed on fresh failures."""
