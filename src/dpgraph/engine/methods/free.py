"""Training settings that a method without privacy may have: each reads the data again, and costs nothing here."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dpgraph.config.cell import LARGE, RootBatches, Training


class FreeTraining(RootBatches):
    weight_decay: Annotated[float, Field(ge=0, description="L2 penalty of all parameters")] = 0.0


class StoppedTraining(FreeTraining):
    patience: Annotated[int, Field(ge=1, le=LARGE)] | None = Field(
        default=None,
        description="Epochs without a better score on validation nodes before stopping; the best parameters are kept",
    )
    stop_on: Literal["loss", "accuracy"] = Field(
        default="loss", description="With patience, the score: less loss, or more accuracy and among equals less loss"
    )

    @model_validator(mode="after")
    def _stops(self) -> Self:
        if self.patience is None and self.stop_on != "loss":
            raise ValueError(f"patience=null, stop_on={self.stop_on}: expected stop_on only with patience")
        return self


class AnyBatches(Training):
    """A baseline without batches takes the settings of the methods that it is compared with."""

    batch_size: Annotated[int, Field(ge=1, le=LARGE, description="Not read")] | None = None
    sampling_rate: Annotated[float, Field(gt=0, le=1, description="Not read")] | None = None
    num_splits: Annotated[int, Field(ge=1, le=LARGE, description="Not read")] | None = None
