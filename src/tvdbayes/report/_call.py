"""A fit as Python that makes it again, and its law in words."""

import re

from tvdbayes.report._reportable import Reportable

__all__ = ["call_of", "code_of", "name_of"]

_STRINGS_AND_CLASSES = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|\b([A-Z]\w*)\(""")


def call_of(fit: Reportable) -> str:
    """The call that makes this fit again."""
    posterior, data = fit.posterior, fit.data
    options = {
        "family": code_of(posterior.model.family),
        "divergence": code_of(posterior.divergence),
        "n_draws": repr(posterior.n_draws),
        "seed": repr(posterior.seed),
    }
    if data is not None:
        uses = ("offset", data.offset), ("exposure", data.exposure), ("weights", data.weights)
        options |= {what: repr(name) for what, name in uses if name is not None}
        if data.trials is not None and "/" not in fit.formula.split("~")[0]:
            options["trials"] = repr(data.trials)
    if fit.more_encodings:
        further = {name: f"~ {spec.formula}" for name, spec in fit.more_encodings.items()}
        options["predictors"] = repr(further)
    if posterior.partition.name == "singletons":
        options["partition"] = repr(posterior.partition.name)
    if posterior.refine is not None:
        options["refine"] = repr(posterior.refine)
    if fit.left_out:
        options["collinear"] = repr("drop")
    if (fit.cell_of_row < 0).any():
        options["missing"] = repr("drop")
    lines = [repr(fit.formula), "data", *(f"{name}={value}" for name, value in options.items())]
    return "import tvdbayes as tb\n\nfit = tb.fit(\n    " + ",\n    ".join(lines) + ",\n)"


def code_of(part: object) -> str:
    """Python that makes a family or a divergence: its repr, with classes taken from ``tb``."""
    return _STRINGS_AND_CLASSES.sub(lambda found: found[1] or f"tb.{found[2]}(", repr(part))


def name_of(family: object) -> str:
    """What a family is called: the classes in its repr, links aside."""
    text = repr(family)
    names = (
        found[2]
        for found in _STRINGS_AND_CLASSES.finditer(text)
        if found[2] and not text[: found.start()].endswith("link=")
    )
    return re.sub("(?<=[a-z])(?=[A-Z])", " ", " ".join(names))
