"""The closed form that stands beside a simulation."""
