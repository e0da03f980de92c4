"""The closed form that stands next to a simulation."""
