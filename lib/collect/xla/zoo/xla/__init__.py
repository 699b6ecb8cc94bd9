"""The vision half of the zoo, and its neighbours: video, sound, points, graphs, tables.

Families that a practitioner would recognise, small enough to measure. Every network keeps its
architecture's blocks and has only a few of them: a configuration costs one compilation, so small
nets of many families beat one large net. Sizes are by measurement: 1-15 ms a run, compiled within
a second. Training steps go without norms ("nf") or with few of them and by mean pooling, whose
gradients are cheap to compile.
"""

from itertools import chain, zip_longest

from lib.collect.xla.zoo.program import ZooProgram
from lib.collect.xla.zoo.xla import beyond, convolutional, generative, mixing, patches, prediction

_MODULES = (convolutional, prediction, patches, generative, mixing, beyond)
_FAMILIES = tuple(chain.from_iterable(module.FAMILIES for module in _MODULES))

# Round-robin over the families, so that a collection cut short is diverse.
PROGRAMS: tuple[ZooProgram, ...] = tuple(
    program for program in chain.from_iterable(zip_longest(*_FAMILIES)) if program
)
