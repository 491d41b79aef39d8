"""What wrappers around a family of counts share: checks, and properties of the family inside."""

from typing import ClassVar

from tvdbayes._array import xp
from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array, BoolArray
from tvdbayes.models.families._base import AbstractFamily


class AbstractWrapper(AbstractFamily):
    """A family of counts built from another one, whose properties it takes over."""

    base: AbstractFamily

    counts: ClassVar[bool] = True
    about_zeros: ClassVar[bool] = True

    def _check_base(self) -> None:
        base: object = self.base
        if not (isinstance(base, AbstractFamily) and base.counts):
            raise SettingsError(
                f"{type(self).__name__} goes around a family of counts such as Poisson(); "
                f"got {base!r}."
            )
        if self.about_zeros and (
            0.0 in base.spikes or not base.possible(xp.zeros(1), xp.ones(1)).all()
        ):
            raise SettingsError(
                f"{type(self).__name__} changes how zeros arise, but {base!r} already does, or "
                "cannot make any. Put it around a plain family of counts."
            )
        names = self.predictors
        if len(set(names)) < len(names):
            raise SettingsError(
                f"Two predictors of {self!r} have the same name: {', '.join(names[1:])}. "
                "Rename the parameter of the family inside."
            )

    @property
    def on_device(self) -> bool:
        return self.base.on_device

    @property
    def single_precision(self) -> bool:
        return self.base.single_precision

    @property
    def predictors(self) -> tuple[str, ...]:
        return self.base.predictors

    @property
    def link_name(self) -> str:
        return self.base.link_name

    @property
    def ratios(self) -> tuple[str, ...]:
        return self.base.ratios

    @property
    def needs_trials(self) -> bool:
        return self.base.needs_trials

    @property
    def spikes(self) -> tuple[float, ...]:
        return (*self.base.spikes, 0.0)

    def saturated(self, y: Array, trials: Array) -> Array:
        return self.base.saturated(y, trials)

    def possible(self, y: Array, trials: Array) -> BoolArray:
        return self.base.possible(y, trials)

    def nodes(self, eta: Array, trials: Array, power: float) -> tuple[Array, Array]:
        return self.base.nodes(eta[: len(self.base.predictors)], trials, power)
