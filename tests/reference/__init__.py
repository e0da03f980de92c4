"""Models that are too plain to be wrong, for the oracle tests to compare the engine with."""
