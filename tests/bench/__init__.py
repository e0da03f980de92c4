"""Time, events and memory; figures to print, never assertions on time."""
