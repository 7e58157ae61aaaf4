"""Networks and the operators that they need: message passing, sparse products, inference."""
