"""Units of images: which images belong to a class, a subclass or a unit of one, and which of them a step reads.

Zhang 2021, Algorithm 5, lines 3 to 6.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpgraph.core.errors import invalid
from dpgraph.core.randomness import Name, numpy_generator
from dpgraph.data.records import Records
from dpgraph.privacy.procedure import Lists

SPREAD = 2.0  # of images along a direction of length 1, public: within it the parts differ, beyond they repeat
ROUNDS = 20  # of k-means


@dataclass(frozen=True)
class Units:
    """U units in a public order; `ids` holds the images of unit u at starts[u] to starts[u + 1]. A unit may be empty.

    `kind` states what decides which unit an image is in.
    """

    ids: np.ndarray  # (n,) int64
    starts: np.ndarray  # (U + 1,) int64
    kind: Lists

    @property
    def sizes(self) -> np.ndarray:
        """Return the (U,) numbers of images."""
        return np.diff(self.starts)

    def chosen(
        self, units: np.ndarray, most: int | None, generator: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Choose the images that a step reads of non-empty `units`.

        Without `most`, all images of each unit count, and a shorter row repeats its first image with weight 0.
        Otherwise `most` images are drawn with replacement from the unit alone, equally weighted, and the number of
        random numbers does not depend on the sizes. A unit that becomes empty is dropped before (steps.py), so that the
        units after it read other numbers of the stream. All numbers are independent and read once: the distribution of
        what is drawn of the other units stays the same.

        Args:
            units: (u,) places of units.
            most: Images of a unit; None: all.
            generator: Draws them.

        Returns:
            (u, m) ids of images and (u, m) weights whose rows sum to 1.
        """
        sizes = self.sizes[units]
        if sizes.size and sizes.min() < 1:
            raise ValueError("an empty unit has no images to choose from")
        if most is not None:
            place = (generator.random((len(units), most)) * sizes[:, None]).astype(np.int64)
            return self.ids[self.starts[units, None] + place], np.full(place.shape, 1 / most, dtype=np.float32)
        columns = np.arange(max(sizes.tolist(), default=0))
        held = columns < sizes[:, None]
        place = np.where(held, columns, 0)
        return self.ids[self.starts[units, None] + place], (held / sizes[:, None]).astype(np.float32)


def grouped(ids: np.ndarray, unit: np.ndarray, count: int, kind: Lists) -> Units:
    """Group the images `ids` by their `unit` in 0..count - 1; those of -1 are left out."""
    kept = unit >= 0
    order = np.argsort(unit[kept], kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(unit[kept], minlength=count))]).astype(np.int64)
    return Units(ids[kept][order].astype(np.int64), starts, kind)


def record_units(train: np.ndarray) -> Units:
    """Return each image as a unit of its own."""
    return Units(train.astype(np.int64), np.arange(len(train) + 1), Lists.NONE)


def class_units(train: np.ndarray, labels: np.ndarray, classes: int) -> Units:
    """Return one unit for each class; `labels` (N,), -1: a null image, which is in none."""
    return grouped(train, labels[train], classes, Lists.CLASSES)


def subclass_units(
    train: np.ndarray, labels: np.ndarray, features: np.ndarray, classes: int, parts: int, *names: Name
) -> Units:
    """Cut each class into `parts` units by a public function of each image alone, as the relation `subclass` requires.

    With x the pixels (N, F) and r a public random direction of length 1, an image is in part floor(parts x.r / SPREAD)
    modulo `parts`. Neighbouring images along r share a part.
    """
    _check(parts)
    direction = numpy_generator(*names).standard_normal(features.shape[1])
    # einsum reads each image alone: blocks of a product of matrices would depend on how many there are
    along = np.einsum("nf,f->n", features[train].astype(np.float64), direction / np.linalg.norm(direction))
    known = np.isfinite(along)
    part = np.mod(np.floor(parts * np.where(known, along, 0.0) / SPREAD), parts).astype(np.int64)
    unit = np.where(labels[train] >= 0, labels[train] * parts + part, -1)
    return grouped(train, unit, classes * parts, Lists.SUBCLASSES)


def cluster_units(
    train: np.ndarray, labels: np.ndarray, features: np.ndarray, classes: int, parts: int, *names: Name
) -> Units:
    """Cut each class into `parts` clusters by k-means on its images, as the thesis does (section 4.4.3).

    The partition depends on all images of a class, and no budget pays for it. A class with fewer images than parts
    leaves some parts empty.
    """
    from sklearn.cluster import MiniBatchKMeans
    from threadpoolctl import threadpool_limits

    _check(parts)
    unit = np.full(len(train), -1, dtype=np.int64)
    with threadpool_limits(1):  # the last bits would depend on the number of threads
        for number in range(classes):
            own = np.flatnonzero(labels[train] == number)
            if len(own) <= parts:
                unit[own] = number * parts + np.arange(len(own))
                continue
            seed = int(numpy_generator(*names, number).integers(2**31))
            found = MiniBatchKMeans(parts, max_iter=ROUNDS, n_init=1, random_state=seed, batch_size=1024)
            unit[own] = number * parts + found.fit_predict(np.array(features[train[own]], dtype=np.float32))
    return grouped(train, unit, classes * parts, Lists.CLUSTERS)


def parted_units(records: Records, parts: int, folder: str, clusters: bool) -> Units:
    """Cut the classes of records into `clusters`, or by the public function, keyed by the task's folder."""
    cut = cluster_units if clusters else subclass_units
    labels, features = np.asarray(records.labels), np.asarray(records.features)
    names = ("dpgraph", folder, "subclasses", parts)
    return cut(records.train_nodes, labels, features, records.num_classes, parts, *names)


def _check(parts: int) -> None:
    if parts < 1:
        raise invalid("subclasses", parts, "an integer >= 1")
