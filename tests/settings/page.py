"""``python -m tests.settings.page`` writes the page of all settings, docs/reference/settings.md.

It is made of what the settings declare: help, default and what a search tries; and of what official
and small data change. A test compares it with the code.
"""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from lib.files.artifacts import atomic_file
from lib.settings.resolved import ROOT
from lib.settings.search import Search, declared
from lib.settings.tables import COLLECTIONS, MODELS, fitting
from lib.tpugraphs.dataset import TPUGRAPHS

PAGE = ROOT / "docs" / "reference" / "settings.md"
HEAD = """# Settings

`.venv/bin/python -m tests.settings.page` writes this page from `lib/settings/`; edit that.

A setting is a flag of every stage, and of `ARGS` of make: `ARGS="--learning-rate 0.01"`. What is
True is switched off by `--no-`, such as `--no-edges`. Settings may also stand in a
[settings file](../how-to/tune.md#settings-files). `.venv/bin/python 02_train.py --collection NAME
--show` prints the values of a run.

*Small* data are the bundled measurements and, mostly, your own
([dataset.json](../how-to/own-data.md#datasetjson) says so); an empty field is as on official data.
The last column is what [`make tune`](../how-to/tune.md) tries. Numbers in brackets are sections of
the papers.
"""
COLUMNS = "\n| flag | official data | small data | meaning | search |\n|---|---|---|---|---|\n"
SIZES = {
    "official": TPUGRAPHS,
    "small": dataclasses.replace(TPUGRAPHS, size="small", hardware="cpu"),
}
Where = tuple[str, str]  # a model and a collection


@dataclasses.dataclass
class Row:
    """A setting as some models have it.

    Attributes:
        one: its declaration.
        search: how it is searched.
        values: by size of the data, and by model and collection.
    """

    one: dataclasses.Field
    search: Search | None
    values: dict[str, dict[Where, Any]]

    def section(self) -> str:
        """The models that have it, in words."""
        models = {(COLLECTIONS[collection], model) for model, collection in self.values["small"]}
        kinds = [kind for kind in MODELS if any(kind == of for of, _ in models)]
        if len(kinds) == len(MODELS):
            return "Every model"
        if all((kind, model) in models for kind in kinds for model in MODELS[kind]):
            return f"Models of {' and '.join(kind.rstrip('s') + 's' for kind in kinds)}"
        return ", ".join(f"`{model}`" for model in dict.fromkeys(m for _, m in sorted(models)))

    def line(self) -> str:
        """It as a line of the table."""
        official, small = (cell(self.values[size]) for size in SIZES)
        cells = [
            f"`--{self.one.name.replace('_', '-')}`",
            official,
            "" if small == official else small,
            self.one.metadata["help"],
            searched(self.search),
        ]
        return f"| {' | '.join(cells)} |\n"


def cell(values: Mapping[Where, Any]) -> str:
    """Values in words: the commonest, then others with the models or collections that have them."""
    having: dict[str, list[Where]] = defaultdict(list)
    for where, value in values.items():
        having[written(value)].append(where)
    first, *others = sorted(having, key=lambda value: -len(having[value]))
    return "; ".join([first, *(f"{one}: {label(having[one], values)}" for one in others)])


def label(where: list[Where], everywhere: Mapping[Where, Any]) -> str:
    """Which collections these are, or models of all their collections, or models of some."""
    left, names = list(where), []
    for place in (1, 0):
        for name in dict.fromkeys(one[place] for one in where):
            having = [one for one in everywhere if one[place] == name]
            if set(having) & set(left) and set(having) <= set(where):
                names.append(f"`{name}`")
                left = [one for one in left if one not in having]
    return ", ".join([*names, *(f"`{model}` of `{collection}`" for model, collection in left)])


def searched(search: Search | None) -> str:
    """What a search tries."""
    if search is None:
        return ""
    if search.values:
        words = all(isinstance(one, str) for one in search.values)  # which the meaning lists
        return "all" if words else ", ".join(map(written, search.values))
    return f"{search.low:g} to {search.high:g}{' (log)' * search.logarithmic}"


def written(value: Any) -> str:
    """A value as it is typed."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def rows() -> list[Row]:
    """Every setting; a model's that means something else by the name is another one."""
    found: dict[tuple[str, str], Row] = {}
    for size, model, collection, one, value in _values():
        key = (one.name, re.sub(r" \([^)]*\)$", "", one.metadata["help"]))
        search = declared(MODELS[COLLECTIONS[collection]][model], one.name)
        row = found.setdefault(key, Row(one, search, {name: {} for name in SIZES}))
        row.values[size][model, collection] = value
    return list(found.values())


def _values() -> Iterator[tuple[str, str, str, dataclasses.Field, Any]]:
    for collection, kind in COLLECTIONS.items():
        for model, chosen in MODELS[kind].items():
            for size, dataset in SIZES.items():
                given = fitting(collection, chosen, dataset)
                for one in dataclasses.fields(chosen):
                    if "help" in one.metadata and one.name not in ("model", "experiment"):
                        yield size, model, collection, one, given.get(one.name, one.default)


def page() -> str:
    """The page's text."""
    sections: dict[str, list[Row]] = defaultdict(list)
    for row in rows():
        sections[row.section()].append(row)
    longest_first = sorted(sections, key=lambda name: -len(sections[name][0].values["small"]))
    parts = [
        f"\n## {name}\n{COLUMNS}{''.join(row.line() for row in sections[name])}"
        for name in longest_first
    ]
    return HEAD + "".join(parts)


def main() -> None:
    """Write the page and say where."""
    with atomic_file(PAGE) as temporary:
        temporary.write_text(page(), encoding="utf-8")
    print(f"settings: wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
