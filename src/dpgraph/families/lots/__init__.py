"""DP-SGD over lots of independent records (Igamberdiev and Habernal, App. F)."""
