"""The kinds of cell ids, told apart by the type checker; at run time they are plain integers and cost nothing.

Both trees number their cells from 0, so that a physical id in the place of a virtual one goes unnoticed. Ids are made
by the trees alone: take them from a tree (`Tree.children`, `Tree.subtree`, `PhysicalTree.at` and so on) rather
than from arithmetic.
"""

from __future__ import annotations

from typing import Final, NewType, TypeVar

PhysicalCell = NewType("PhysicalCell", int)
"""A cell of the physical tree: devices that are there."""
VirtualCell = NewType("VirtualCell", int)
"""A cell of the virtual tree: a promise to a VC, or a part of one."""

C = TypeVar("C", PhysicalCell, VirtualCell)
"""Either kind, the same throughout a signature."""

NO_PHYSICAL: Final = PhysicalCell(-1)
"""In the place of a physical cell: there is none."""
NO_VIRTUAL: Final = VirtualCell(-1)
"""In the place of a virtual cell: there is none."""
