"""How the values of a metric are shown: label, unit, range, and what they are read against."""

import math
from dataclasses import dataclass, replace

from dpgraph.config.experiment import HARD_CASES


@dataclass(frozen=True)
class Quantity:
    """Form of a metric's values; without more they are shares, stored as fractions and shown in percent."""

    label: str  # of an axis, with the unit
    unit: str = "%"  # empty: a number without unit
    difference: str = "points"  # unit of a difference
    scale: float = 100.0  # shown / stored
    low: float = 0.0  # range of the shown values
    high: float = 100.0
    reference: str = ""  # metric of the chance baseline, with which values are compared
    reference_label: str = ""

    @property
    def point(self) -> float:
        """Return a hundredth of the range, as a point of percent is; 1 where there is no largest value."""
        return min(1.0, (self.high - self.low) / 100)

    @property
    def more_is_better(self) -> bool:
        return self.unit == "%"


OTHERS = {
    "degree_rmse": Quantity("RMSE of the degree (edges)", "edges", "edges", 1.0, 0.0, math.inf,
                            "degree_rmse_constant", "predicting the mean degree"),
    "degree_rmse_constant": Quantity("RMSE of the mean degree (edges)", "edges", "edges", 1.0, 0.0, math.inf),
    "disagreements": Quantity("images that two discriminators disagree on", "images", "images", 1.0, 0.0, math.inf),
    "training_accuracy_1": Quantity("training accuracy, on released labels (%)"),
    "training_accuracy_2": Quantity("training accuracy of the second discriminator (%)"),
    "wrong_disagreements": Quantity("wrong labels among disagreements (%)"),
    "inversion_l2": Quantity("L2 from reconstruction to nearest training image", "", "", 1.0, 0.0, math.inf,
                             "inversion_blank_l2", "a black image"),
    "inversion_blank_l2": Quantity("L2 from a black image to nearest training image", "", "", 1.0, 0.0, math.inf),
    "inversion_recognised": Quantity("reconstructions nearest by angle to an image of their class (%)"),
    "inversion_ssim": Quantity("1 − SSIM of reconstruction and nearest training image", "", "", 1.0, 0.0, 2.0),
    "membership_auc": Quantity("membership by losses, AUC (%)"),
    "presence_epsilon": Quantity("ε that others’ predictions show, at least", "", "", 1.0, 0.0, math.inf),
    "silhouette": Quantity("mean silhouette by class", "", "", 1.0, -1.0, 1.0),
}  # fmt: skip


NAMES = {
    "macro_f1": "macro F1",
    "prec_at_1": "PREC@1",
    "mrr": "MRR",
    "prec_at_1_full": "PREC@1 of the full ranking",
    "mrr_full": "MRR of the full ranking",
    "prec_at_1_rare": "PREC@1 of rare tails",
    "mrr_rare": "MRR of rare tails",
}


def is_utility(metric: str) -> bool:
    """Return whether the metric measures a model's task, so that the largest value is the best.

    >>> is_utility("accuracy/test"), is_utility("silhouette/train")
    (True, False)
    """
    return metric.partition("/")[0] in {"accuracy", *NAMES}


def quantity(metric: str) -> Quantity:
    """
    >>> quantity("accuracy/val").label, quantity("macro_f1/test").label, quantity("hard_cases/fig5").label
    ('validation accuracy (%)', 'test macro F1 (%)', 'hard cases misclassified (%)')
    >>> quantity("degree_rmse/train").reference
    'degree_rmse_constant/train'
    """
    if metric.startswith(f"{HARD_CASES}/"):
        return Quantity("hard cases misclassified (%)")
    name, _, part = metric.partition("/")
    if name in OTHERS:
        other = OTHERS[name]
        return replace(other, reference=f"{other.reference}/{part}") if other.reference else other
    words = NAMES.get(name, name.replace("_", " "))
    return Quantity(f"{'validation' if part == 'val' else part} {words} (%)")
