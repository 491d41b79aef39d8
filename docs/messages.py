"""The index of messages: every error and warning of the package, read from its source.

``python docs/messages.py`` prints the page; the documentation makes it anew at every build.
"""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parent.parent / "src" / "tvdbayes"
OPEN = "\N{HORIZONTAL ELLIPSIS}"
"""What stands in a message for a value that is filled in."""
SHORTEST = 12
"""Letters that a message must have beside what is filled in."""
ROOMS = {
    "data": "Data and files",
    "formula": "Formulas and columns",
    "models": "Families, links and predictors",
    "sampling": "Options and draws",
    "objective": "Divergences and groups",
    "fitting": "Fitting and questions to a fit",
    "results": "Answers",
    "estimators": "Estimators for scikit-learn",
    "bounds": "Guarantees",
    "plan": "Planning",
    "plots": "Pictures",
    "storage": "Saving and loading",
    "cli": "The command line",
}
"""Folders of the source with a section of their own; the others are put together."""


class Message(NamedTuple):
    """A message of the source: where it may come up, its class, and its words."""

    section: str
    kind: str
    text: str


def messages(source: Path = SOURCE) -> list[Message]:
    """All messages that stand in the source as text, each once, in the order of the alphabet."""
    trees = {path: ast.parse(path.read_text()) for path in source.rglob("*.py")}
    kinds, named = _kinds(trees[source / "_errors.py"]), _named(trees.values())
    found = set()
    for path, tree in trees.items():
        section = ROOMS.get(path.relative_to(source).parts[0], "Everything else")
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args):
            name = _name(call.func)
            kind = _name(call.args[1]) if name == "warn" and len(call.args) > 1 else name
            if kind in kinds:
                texts = {" ".join(text.split()) for text in _texts(call.args[0], named)}
                found |= {Message(section, kind, text) for text in texts}
    long = (one for one in found if sum(map(str.isalpha, one.text)) >= SHORTEST)
    return sorted(
        long, key=lambda one: (one.section, one.text.lstrip(OPEN + " ").lower(), one.kind)
    )


def _kinds(tree: ast.Module) -> set[str]:
    """The classes of errors and warnings, and that of a bad call in a terminal."""
    own = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    return {name for name in own if name.endswith(("Error", "Warning"))} | {"UsageError"}


def _named(trees: Iterable[ast.Module]) -> dict[str, list[ast.expr]]:
    """What constants are, and what functions return, by their names."""
    named: dict[str, list[ast.expr]] = {}
    for node in (node for tree in trees for node in tree.body):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            named[node.targets[0].id] = [node.value]
        elif isinstance(node, ast.FunctionDef):
            returns = [one.value for one in ast.walk(node) if isinstance(one, ast.Return)]
            named[node.name] = [value for value in returns if value is not None]
    return named


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def _texts(node: ast.expr, named: dict[str, list[ast.expr]]) -> Iterator[str]:
    """What an expression may say, with `OPEN` for what is filled in; nothing if that is all."""
    if isinstance(node, ast.IfExp):
        yield from _texts(node.body, named)
        yield from _texts(node.orelse, named)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        for left in list(_texts(node.left, named)) or [OPEN]:
            yield from (left + right for right in list(_texts(node.right, named)) or [OPEN])
    elif isinstance(node, ast.JoinedStr):
        yield "".join(
            str(part.value) if isinstance(part, ast.Constant) else OPEN for part in node.values
        )
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    else:
        name = _name(node.func if isinstance(node, ast.Call) else node)
        yield from (text for one in named.get(name, []) for text in _texts(one, {}))


def page() -> str:
    """The page in Markdown."""
    found = messages()
    lines = [
        "# Index of messages",
        "",
        f"All {len(found)} messages of errors and warnings that stand in the source, read from it "
        f"when this page was built. {OPEN} stands for what is filled in: names, numbers, and what "
        "to do where that depends on the data. Search the page for words of the message; most "
        "end with what to do. [Errors and warnings](errors.md) explains the classes.",
    ]
    for section in [*ROOMS.values(), "Everything else"]:
        mine = [one for one in found if one.section == section]
        lines += ["", f"## {section}", ""] if mine else []
        lines += [f"- {_escaped(one.text)} (`{one.kind}`)" for one in mine]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    """Text that Markdown shows as it is."""
    return "".join(f"\\{letter}" if letter in "\\`*_{}[]<>#|~$^" else letter for letter in text)


if __name__ == "__main__":
    print(page())
