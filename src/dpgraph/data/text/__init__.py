"""Feature vectors of texts by pre-trained models that the user's machine has: fastText and BERT."""
