"""Relation prediction trained on tuples with negatives: heads on fixed vectors, and encoders (Huang et al.)."""
