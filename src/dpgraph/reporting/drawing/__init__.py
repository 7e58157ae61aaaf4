"""What figures share: canvas, marks, words of legends, and the one allocator of colours and markers."""
