"""Parts of a model by name: what a user may write instead of the thing itself."""

from typing import Any, TypeVar

import numpy as np

from tvdbayes._errors import SettingsError
from tvdbayes.models.families import AbstractLink, Cloglog, Logit, Probit
from tvdbayes.models.predictors import MLP

Part = TypeVar("Part")

LINKS: dict[str, AbstractLink] = {"logit": Logit(), "probit": Probit(), "cloglog": Cloglog()}


def named(value: str | Part, table: dict[str, Part], what: str, kind: type) -> Part:
    """Translate a name; anything else must already be the thing itself."""
    if isinstance(value, str):
        if value not in table:
            raise SettingsError(f"There is no {what} {value!r}. Choose from {', '.join(table)}.")
        return table[value]
    if not isinstance(value, kind):
        raise SettingsError(f"{what} must be one of {', '.join(table)}; got {value!r}.")
    return value


def network_of(network: object) -> MLP:
    """A network itself, or one with hidden layers of these sizes."""
    return network if isinstance(network, MLP) else MLP(hidden=hidden_layers(network))


def hidden_layers(hidden: Any) -> tuple[int, ...]:
    """Sizes of hidden layers, from any sequence or, for one layer, a number; `MLP` checks them."""
    if isinstance(hidden, list | tuple | np.ndarray):
        return tuple(int(size) if isinstance(size, np.integer) else size for size in hidden)
    # What is neither goes on as it is, for the message to show.
    single = isinstance(hidden, int | np.integer) and not isinstance(hidden, bool)
    return (int(hidden),) if single else hidden
