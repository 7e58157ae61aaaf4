"""Classes of the nodes of one graph."""

from dpgraph.problems.base import Problem

PROBLEM = Problem(
    "node-classification",
    "Classes of the nodes of one graph.",
    store="dpgraph.problems.node_classification.prepare:store",
    work="dpgraph.problems.node_classification.work:NodeClassification",
    settings=("transductive", "disjoint", "clustered"),
    features="raw|l1|l2|project-[1-9][0-9]*",
)
