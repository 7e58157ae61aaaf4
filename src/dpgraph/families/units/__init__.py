"""DP-SGD whose protected unit is an image, a class or a subclass (Zhang, chapter 4)."""
