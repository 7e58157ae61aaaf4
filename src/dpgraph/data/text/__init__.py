"""From texts to feature vectors by pre-trained models that the user's machine has: fastText and BERT."""
