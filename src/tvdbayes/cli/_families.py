"""``tvdbayes families``: the laws by name."""

# Laws are imported when they are asked for: help is quick.


def named_families() -> list[tuple[str, str, str]]:
    """Name, outcomes and links of each family; X is the family inside a wrapper."""
    from tvdbayes.models.families import (
        ALL_LINKS,
        COUNT_FAMILIES,
        LINKED_FAMILIES,
        WRAPPERS,
        Categorical,
        Ordinal,
    )

    links = ", ".join(link.name for link in ALL_LINKS)
    return [
        *((law.name, law.suits, "log") for law in COUNT_FAMILIES),
        *((law.name, law.suits, links) for law in LINKED_FAMILIES),
        (Categorical.name, Categorical.suits, "logit"),
        (Ordinal.name, Ordinal.suits, links),
        *((f"{law.name}_X", law.suits, "that of X") for law in WRAPPERS),
    ]


def written_names() -> list[str]:
    """Every name that ``--family`` takes."""
    from tvdbayes.models.families import INSIDE

    names = [name for name, _, _ in named_families()]
    return [n.replace("X", x) for n in names for x in (INSIDE if "X" in n else ("",))]


def _of_every_name() -> list[dict[str, object]]:
    """Name, outcomes and links of each family, and of each wrapper around each family of counts."""
    from tvdbayes.models.families import INSIDE

    links_of = {name: links for name, _, links in named_families()}
    return [
        {
            "name": name.replace("X", inside),
            "outcomes": suits,
            "links": links_of.get(inside, links).split(", "),
        }
        for name, suits, links in named_families()
        for inside in (INSIDE if "X" in name else ("",))
    ]


def run_families(as_json: bool) -> None:
    """Print the table, or the same for a machine; there the first link is the default, too."""
    import click

    from tvdbayes.cli._text import Column, echo_json, paragraph, table
    from tvdbayes.models.families import INSIDE

    if as_json:
        echo_json({"families": _of_every_name()})
        return
    heads = "--family", "outcomes", "--link"
    columns = zip(heads, zip(*named_families(), strict=True), strict=True)
    shown = table([Column(head, cells, left=True) for head, cells in columns], bold=True)
    click.echo(f"{shown}\n")
    click.echo(paragraph(f"X is one of {', '.join(INSIDE)}. The first link is the default."))
