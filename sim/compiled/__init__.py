"""A compiled event loop for scenarios of a simple shape: the same replication as `sim.engine`, to the last bit."""
