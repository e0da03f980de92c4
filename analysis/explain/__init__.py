"""What can be said without a simulation: of clusters, steps, kernels, layouts, services and scenarios, and on paper."""
