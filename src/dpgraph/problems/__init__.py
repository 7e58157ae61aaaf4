"""Problems: what is learnt, what methods may see of it, and how their answers are judged."""
