"""Answers without a simulation: about clusters, steps, kernels, layouts, services and scenarios, and on paper."""
