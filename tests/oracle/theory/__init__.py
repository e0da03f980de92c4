"""Closed forms that only tests need: of jobs and nodes that the simulator is compared with."""
