"""Parts that figures share: canvas, lines, marks, legends, captions, and the allocator of colours and markers."""
