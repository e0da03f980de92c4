"""The chapters of reports: one subject a file."""
