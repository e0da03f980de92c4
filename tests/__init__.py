"""Tests, in folders named after the question they answer."""
