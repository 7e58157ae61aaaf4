"""Edge lists with bounded occurrences, ego trees, batches of roots. Random only by generators that are passed in."""
