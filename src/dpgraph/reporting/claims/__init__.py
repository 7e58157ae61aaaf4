"""The papers' claims: what each compares, how it is tested, and the verdict."""
