"""The private step of networks of at most one hop as one program of fixed shapes, for a GPU to replay."""
