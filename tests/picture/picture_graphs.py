"""Pictures of any shape, without a pipeline behind them."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from rrext.picture.picture import Kind, Picture, PictureEdge, PictureNode, Role

__all__ = ["LANES", "drawn_from", "pictures", "small_pictures"]

LANES = ("text", "questions", "answers", "documents", "classificationContext", "tags")
KINDS: tuple[Kind, ...] = ("data", "control")
ROLES: tuple[Role, ...] = ("step", "step", "step", "response", "missing")


def drawn_from(seed: int, count: int, edges: int, reach: int) -> Picture:
    """A picture of `count` nodes; `reach` is how far along the list an edge usually leads."""
    chance = random.Random(seed)
    nodes = [
        PictureNode(
            f"n{index}", chance.choice(("p", "embedding_transformer")), role="source" if not index else chance.choice(ROLES)
        )
        for index in range(count)
    ]
    found: dict[tuple[int, int, Kind], PictureEdge] = {}
    for _ in range(edges):
        source = chance.randrange(count)
        far = chance.random() < 0.2
        target = chance.randrange(count) if far else min(max(source + chance.randint(-1, reach), 0), count - 1)
        kind = chance.choice(KINDS)
        names = tuple(chance.sample(LANES, chance.choice((1, 1, 1, 2, 6))))
        found[source, target, kind] = PictureEdge(source, target, kind, names)
    return Picture(tuple(nodes), tuple(found.values()))


@st.composite
def pictures(draw: st.DrawFn, most: int = 120) -> Picture:
    """Pictures from one node to more than a hundred, from no edge to more than anybody would draw."""
    count = draw(st.integers(1, most))
    edges = int(count * draw(st.sampled_from([0, 0.5, 1, 1.5, 2, 5])))
    return drawn_from(draw(st.integers(0, 2**32)), count, edges, draw(st.sampled_from([1, 3, 10])))


@st.composite
def small_pictures(draw: st.DrawFn) -> Picture:
    """Pictures of a few nodes, which fail with few edges if they fail."""
    count = draw(st.integers(1, 9))
    nodes = [PictureNode(f"n{index}", "p", role=draw(st.sampled_from(ROLES))) for index in range(count)]
    node = st.integers(0, count - 1)
    lanes = st.lists(st.sampled_from(LANES), min_size=1, max_size=3, unique=True)
    ends = st.tuples(node, node, st.sampled_from(KINDS))
    edges = draw(st.dictionaries(ends, lanes, max_size=20))
    return Picture(tuple(nodes), tuple(PictureEdge(*key, tuple(names)) for key, names in edges.items()))
