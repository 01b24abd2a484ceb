"""The kinds of ids, told apart by the type checker; at run time they are plain integers and cost nothing.

Both trees number their cells from 0, so that a physical id in the place of a virtual one goes unnoticed. Ids are made
by the trees alone: take them from a tree (`Tree.children`, `Tree.subtree`, `PhysicalTree.at` and so on) rather
than from arithmetic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NewType, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PhysicalCell = NewType("PhysicalCell", int)
"""A cell of the physical tree: devices that are there."""
VirtualCell = NewType("VirtualCell", int)
"""A cell of the virtual tree: a promise to a VC, or a part of one."""
ChainIndex = NewType("ChainIndex", int)
"""A chain as its place in `Tree.chains`; mostly goes with a level, for which it must not be taken."""

C = TypeVar("C", PhysicalCell, VirtualCell)
"""Either kind, the same throughout a signature."""

NO_PHYSICAL: Final = PhysicalCell(-1)
"""In the place of a physical cell: there is none."""
NO_VIRTUAL: Final = VirtualCell(-1)
"""In the place of a virtual cell: there is none."""
NO_PARENT: Final = -1
"""Parent of a top cell of either tree, to compare with."""

Cell_contra = TypeVar("Cell_contra", contravariant=True)
Value = TypeVar("Value")


class ByCell(Protocol[Cell_contra, Value]):
    """A list with a value for each cell of a tree, as the type checker is to see it: only cells of that tree index it.

    What is behind it is a plain list, or a bytearray.
    """

    def __getitem__(self, cell: Cell_contra, /) -> Value:
        """The value of a cell."""

    def __setitem__(self, cell: Cell_contra, value: Value, /) -> None:
        """Change the value of a cell (state only through the journal)."""

    def __len__(self) -> int:
        """The number of cells."""

    def __iter__(self) -> Iterator[Value]:
        """The values in order of ids."""

    def append(self, value: Value, /) -> None:
        """Add the value of the next cell (while a tree is built)."""

    def extend(self, values: Iterable[Value], /) -> None:
        """Add the values of the next cells (while a tree is built)."""
