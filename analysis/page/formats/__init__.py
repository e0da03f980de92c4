"""What a report can be written as."""
