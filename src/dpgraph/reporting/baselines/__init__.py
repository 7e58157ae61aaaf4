"""Results without privacy beside the literature's, and beside scikit-learn's on the same splits."""
