"""Tests on published data that does not come with the program; each says when it was skipped."""
