"""What a user says: the models of a scenario."""
