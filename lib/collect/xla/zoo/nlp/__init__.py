"""The language half of the zoo: small transformers, convolutional, recurrent and pooled models.

A variant's name is its only setting: `bert.w128_d2_h4_b4_l32.forward` is the `Bert` of
:mod:`lib.collect.xla.zoo.nlp.transformers` with width 128, depth 2, heads 4, run forward on 4
texts of 32 tokens (`_LETTERS` names each letter). A module's `FAMILIES` has, for each family, its
network, how many texts it reads and its variants, ".f" forward and ".t" training.
"""

import itertools
import re

from lib.collect.xla.zoo.nlp import mixing, others, tasks, transformers
from lib.collect.xla.zoo.nlp.layers import Language
from lib.collect.xla.zoo.program import Input, ZooProgram, flax_program

_LETTERS = {
    "w": "width",
    "d": "depth",
    "h": "heads",
    "v": "vocab",
    "g": "groups",
    "k": "block",
    "n": "latents",
    "e": "experts",
    "c": "labels",
    "b": "batch",
    "l": "length",
    "r": "reach",
    "s": "sentences",
    "a": "letters",
    "t": "steps",
}

_FAMILIES: dict[str, tuple[type[Language], int, str]] = {
    **transformers.FAMILIES,
    **others.FAMILIES,
    **mixing.FAMILIES,
    **tasks.FAMILIES,
}


def _program(family: str, text: str) -> ZooProgram:
    """The program that a family's name and a variant such as "w64_d2_b4_l32.t" spell out."""
    module, inputs, _ = _FAMILIES[family]
    variant, mode = text.split(".")
    pairs = re.findall(r"([a-z])(\d+)", variant)
    settings = {_LETTERS[letter]: int(number) for letter, number in pairs}
    shape = (settings.pop("batch"), settings.pop("length"))
    built = module(**settings)
    return flax_program(
        family=family,
        source="nlp",
        variant=variant,
        module=built,
        inputs=(Input(shape, built.vocab),) * inputs,
        mode={"f": "forward", "t": "train"}[mode],
    )


def _round_robin() -> tuple[ZooProgram, ...]:
    """The first variant of every family, then the second of each, and so on."""
    columns = itertools.zip_longest(
        *([(family, text) for text in row[2].split()] for family, row in _FAMILIES.items())
    )
    return tuple(_program(*cell) for column in columns for cell in column if cell)


PROGRAMS: tuple[ZooProgram, ...] = _round_robin()
