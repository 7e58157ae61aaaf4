"""Training on rows of approximate personalised PageRank (Zhang 2021, chapter 5)."""
