"""GAP and ProGAP (Sajadmanesh et al.): noisy sums over neighbours, and training on own records and these sums."""
