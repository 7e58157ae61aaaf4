"""A user's own graph: read, planned, trained privately, and written with a card that states what is protected."""
