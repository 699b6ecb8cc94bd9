"""What the library is handed in one call, and where configured layouts end it."""

from __future__ import annotations

import numpy as np

from lib.compiler.cpu.calls import LARGEST, LibraryCalls
from lib.compiler.cpu.facts import ProgramFacts
from lib.compiler.graph import TensorGraph
from lib.compiler.operands import INPUT, KERNEL, OUTPUT
from lib.tpugraphs.encoding import FEATURE_NAMES
from tests.compiler.builders import Builder

WIDE = (1, 4, 4, 384)


def chain(first: str = "maximum", between: int = 1, shape=WIDE):
    """Two convolutions, elementwise operations between them, and a reduction of windows."""
    made = Builder()
    image = made.add("parameter", shape)
    weights = made.add("parameter", (3, 3, shape[-1], shape[-1]))
    window = {"window_size_product": 9, "window_size_0": 3, "window_size_1": 3}
    nodes = {"first": made.convolution(shape, image, weights)}
    last = nodes["first"]
    zero = made.add("broadcast", shape, made.add("constant", ()))
    for _ in range(between):
        last = made.add(first, shape, last, zero)
    nodes["between"] = last
    nodes["second"] = made.convolution(shape, last, weights)
    nodes["after"] = made.add("tanh", shape, nodes["second"])
    half = (shape[0], shape[1] // 2, shape[2] // 2, shape[3])
    sizes = {f"window_size_{d}": size for d, size in enumerate((1, 2, 2, 1))}
    sizes |= {f"window_stride_{d}": size for d, size in enumerate((1, 2, 2, 1))}
    nodes["pooled"] = made.add("reduce-window", half, nodes["after"], **sizes)
    for name in ("first", "second"):
        for feature, value in window.items():
            made.features[nodes[name]][FEATURE_NAMES.index(feature)] = value
    return made, nodes


def calls_of(made, configurable) -> LibraryCalls:
    graph = made.graph(configurable, [[((), (), ())] * len(configurable)])
    return LibraryCalls(ProgramFacts(TensorGraph.of(graph)))


def together(calls: LibraryCalls, layouts) -> list[set[int]]:
    """The nodes of the one call of each configuration."""
    found: list[set[int]] = [set() for _ in layouts]
    for configurations, groups in calls._calls(np.array(layouts)):
        nodes = [node for group in groups.tolist() for node in calls._members[group]]
        for configuration in configurations.tolist():
            found[configuration].update(nodes)
    return found


def layouts(*configured: tuple[int, int]) -> list[list[int]]:
    """Of two configurable nodes, those (place, role) configured."""
    own = [[-1] * 3, [-1] * 3]
    for place, role in configured:
        own[place][role] = 0
    return own


def test_a_reduction_takes_what_leads_to_it_up_to_a_configured_layout():
    made, nodes = chain()
    calls = calls_of(made, [nodes["first"], nodes["second"]])
    found = together(
        calls,
        [
            layouts(),
            layouts((1, OUTPUT)),
            layouts((1, INPUT)),
            layouts((0, OUTPUT)),
            layouts((0, INPUT), (0, KERNEL), (1, KERNEL)),
        ],
    )
    order = ["first", "between", "second", "after", "pooled"]
    inside = [{name for name in order if nodes[name] in own} for own in found]
    assert inside[0] == inside[4] == set(order), "a kernel is no part of the chain"
    assert inside[1] == {"after", "pooled"}
    assert inside[2] == {"second", "after", "pooled"}
    assert inside[3] == {"between", "second", "after", "pooled"}


def test_a_clamp_ends_a_call():
    made = Builder()
    x = made.add("parameter", (8, 1024))
    zero, six = (made.add("broadcast", (8, 1024), made.add("constant", ())) for _ in range(2))
    high = made.add("maximum", (8, 1024), x, zero)
    low = made.add("minimum", (8, 1024), high, six)
    made.add("reduce", (8,), low, dimensions_0=1)
    alone = made.add("maximum", (8, 1024), x, zero)
    takes = calls_of(made, []).library.takes
    assert not takes[high] and not takes[low] and takes[alone]


def test_small_operations_stay_with_the_compiler():
    made = Builder()
    small = made.add("tanh", (8, 16), made.add("parameter", (8, 16)))
    large = made.add("tanh", (8, 1024), made.add("parameter", (8, 1024)))
    summed = made.add("reduce", (8,), large, dimensions_0=1)
    takes = calls_of(made, []).library.takes
    assert (takes[small], takes[large], takes[summed]) == (False, True, True)


def test_a_call_stops_growing_when_it_is_large():
    made, nodes = chain(between=2 * LARGEST)
    first, second = nodes["first"], nodes["second"]
    configurable = [first, second]
    (own,) = together(calls_of(made, configurable), [layouts()])
    assert second in own and first not in own


def test_what_a_call_repeats_goes_when_it_is_cut():
    made, nodes = chain()
    calls = calls_of(made, [nodes["first"], nodes["second"]])
    ((configurations, (operation,)),) = calls.repeated(np.array([layouts(), layouts((0, OUTPUT))]))
    assert configurations.tolist() == [0]
    assert operation.node == nodes["first"] and operation.times == 384 / 64
