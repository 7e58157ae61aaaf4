"""Private votes: training on own records, then one release through which nodes inform their neighbours (ours)."""
