"""What is decided: checkpoint, detection, recovery, repair, scheduling."""
