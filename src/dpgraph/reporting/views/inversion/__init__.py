"""Model inversion: accuracy, distances and epsilons of the attacked networks."""
