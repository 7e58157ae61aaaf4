"""What a distance of a reconstruction says, and what it does not."""

from __future__ import annotations

MEANING = (
    "A distance is of the reconstruction that one attack found to the nearest training image of the class. It bounds "
    "no ε: another attack may come nearer, and a distance says nothing of whether one image, or one class, was in the "
    "data. An ε bounds every attack on what it protects, and no distance: an image of a class that "
    "the training data do not hold may be as near. A distance in one row is no scale for that in another with other "
    "accuracy."
)
BLANK = (
    "Black image: the mean least L2 of an image without any ink, which knows nothing of the data. A reconstruction "
    "that is farther than that is no nearer to the training images than nothing."
)
RECOGNISED = "Recognised: reconstructions whose nearest training image by L2, of all classes, is of their own class."
MEMBERSHIP = (
    "Membership: area under the curve of the attack that calls images of small loss members, 50 % where losses tell "
    "nothing. It is about single images, as record-DP is, and no better measured by a distance than an ε is."
)
