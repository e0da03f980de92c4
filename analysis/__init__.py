"""From many results to a decision: statistics, ensembles, presentation."""
