"""Classes of images."""

from dpgraph.problems.base import Problem

PROBLEM = Problem(
    "images",
    "Classes of images; the records of the guarantee are images, or all images of a class.",
    store="dpgraph.problems.images.prepare:store",
    work="dpgraph.problems.images.work:ImageClassification",
)
