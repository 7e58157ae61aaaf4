"""Message passing on ego trees, with and without privacy (Daigavane et al.)."""
