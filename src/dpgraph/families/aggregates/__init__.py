"""GAP, ProGAP and DPDGC: noisy sums over neighbours, and training on own records and these sums."""
