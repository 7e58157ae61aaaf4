"""Edge lists with bounded occurrences, ego trees, batches of roots. Randomness only from generators that are passed in."""
