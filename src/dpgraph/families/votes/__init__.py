"""Private votes: training on own records, and one release through which nodes inform their neighbours (ours)."""
