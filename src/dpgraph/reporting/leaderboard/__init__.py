"""The first page of a suite's results: who is best at which epsilon, and what that epsilon protects."""
