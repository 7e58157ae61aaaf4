"""Training steps, private or not, and the loop that runs them."""
