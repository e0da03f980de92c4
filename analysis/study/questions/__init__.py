"""Answers: what the results of a study say to each of its questions, as numbers and in words."""
