"""The policies: checkpoint, detection, recovery, repair, scheduling."""
