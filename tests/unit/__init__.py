"""Unit tests: does this function do what it says."""
