"""The Gaussian accountants that several families share, and how an accountant is declared and found."""
