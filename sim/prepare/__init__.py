"""From a scenario to what its replications share."""
