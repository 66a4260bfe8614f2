"""Where the layers and tensors of a network stand in its picture: ranks and lanes, rows, routes, coordinates.

Networks are long and thin, so ranks run from left to right and wrap like the words of a text. Layers stand in the cells
of a grid; tensors that cannot go straight run in channels above the lanes and in gaps between the ranks, so that no
line ever crosses a layer. All of it is arithmetic on the graph: the same network always gives the same picture.
"""

from fadiff.report.layout.drawing import Box, Drawing, Line, draw
from fadiff.report.layout.graph import Graph, Link, Node, graph_of

__all__ = ["Box", "Drawing", "Graph", "Line", "Link", "Node", "draw", "graph_of"]
