"""What clients keep between visits, as one mapping: all in memory, or the most recent there and the rest on disk."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field

from igfl.types import Memory

Write = Callable[[dict[int, Memory]], None]
Read = Callable[[int], Memory]


@dataclass
class Memories(MutableMapping[int, Memory]):
    """Client -> memory. `changed` are the clients written since the last checkpoint and not yet on disk.

    With a `limit`, the least recently used beyond it are written with `write` where they changed, let go, and read
    again with `read`.
    """

    limit: int | None = None
    write: Write | None = None
    read: Read | None = None
    on_disk: set[int] = field(default_factory=set)  # clients whose present memory can be read
    changed: set[int] = field(default_factory=set)
    _here: OrderedDict[int, Memory] = field(default_factory=OrderedDict)

    def __getitem__(self, client: int) -> Memory:
        if client in self._here:
            self._here.move_to_end(client)
            return self._here[client]
        if client not in self.on_disk or self.read is None:
            raise KeyError(client)
        memory = self.read(client)
        self._keep(client, memory)
        return memory

    def __setitem__(self, client: int, memory: Memory) -> None:
        self.changed.add(client)
        self.on_disk.discard(client)
        self._keep(client, memory)

    def __delitem__(self, client: int) -> None:
        raise TypeError("a client's memory is replaced, never taken away")

    def __iter__(self) -> Iterator[int]:
        return iter(sorted({*self._here, *self.on_disk}))

    def __len__(self) -> int:
        return len(self._here.keys() | self.on_disk)

    def start_from(self, memories: Mapping[int, Memory], on_disk: Iterable[int]) -> None:
        """What a checkpoint holds, and nothing else: in this process, or to be read when it is wanted."""
        self._here, self.changed = OrderedDict(memories), set()
        self.on_disk = set() if self.limit is None else set(on_disk)

    def take_changed(self) -> dict[int, Memory]:
        """What a checkpoint has to write; from here on it counts as written."""
        taken = {client: self._here[client] for client in sorted(self.changed)}
        self.changed.clear()
        if self.limit is not None:
            self.on_disk.update(taken)
        return taken

    def _keep(self, client: int, memory: Memory) -> None:
        self._here[client] = memory
        self._here.move_to_end(client)
        if self.limit is not None and len(self._here) > self.limit:
            self._let_go(list(self._here)[: max(1, self.limit // 8)])  # several at once: one write, not many

    def _let_go(self, clients: list[int]) -> None:
        unsaved = {client: self._here[client] for client in clients if client in self.changed}
        if unsaved and self.write is not None:
            self.write(unsaved)
            self.changed.difference_update(unsaved)
            self.on_disk.update(unsaved)
        for client in clients:
            del self._here[client]
