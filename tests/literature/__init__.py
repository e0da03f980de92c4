"""Published numbers beside ours, each with its tolerance and a label: calibrated, emergent or sanity."""
