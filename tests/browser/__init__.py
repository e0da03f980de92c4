"""The page of a report, opened in a browser."""
