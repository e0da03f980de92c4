"""The models of a scenario: the keys that a user states."""
