"""A run's state on disk: small checkpoint files, and one SQLite file with a row for each memory they name.

A row is never written over; it goes once neither of the last two checkpoints names it. Writing happens in a thread
beside the training.
"""

from __future__ import annotations

import fcntl
import sqlite3
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any, Self

from igfl.runs.checkpoints import Checkpoint, Row, packed, read
from igfl.runs.digest import Chain
from igfl.runs.files import Broken, pack, unpack, write_whole
from igfl.runs.memories import Memories
from igfl.types import Memory, ServerState

KEPT = 2  # checkpoints
_SCHEMA = """
CREATE TABLE IF NOT EXISTS memories (
    client INTEGER NOT NULL, round INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (client, round)
)
"""


class StoreError(RuntimeError):
    """The run's state cannot be written, or nothing that was written can be read."""


@dataclass(frozen=True, slots=True)
class _Order:
    """A checkpoint on its way to the disk."""

    state: ServerState
    chain: Chain
    facts: Mapping[str, str]
    changed: Mapping[int, Memory]


@dataclass
class _Index:
    """Where the newest row of every client is, for the training and for the thread that writes."""

    _rows: dict[int, Row] = field(default_factory=dict)
    _lock: Any = field(default_factory=Lock)

    def add(self, rows: Mapping[int, Row]) -> None:
        """These rows, but for clients that have a newer one."""
        with self._lock:
            for client, row in rows.items():
                if client not in self._rows or self._rows[client][0] <= row[0]:
                    self._rows[client] = row

    def of(self, client: int) -> Row:
        """The newest row of this client."""
        return self._rows[client]

    def now(self) -> dict[int, Row]:
        """All of them, at this moment."""
        with self._lock:
            return dict(self._rows)

    def start_from(self, rows: Mapping[int, Row]) -> None:
        """These rows and no others."""
        with self._lock:
            self._rows = dict(rows)


class Store:
    """The state of one run, in its folder; `limit` memories are kept in this process, None keeps them all."""

    def __init__(self, folder: Path, *, limit: int | None = None) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._lock_file = (folder / "lock").open("w")
        try:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock_file.close()
            raise StoreError(f"{folder.parent}: another process is working on this run") from error
        try:
            self._database = _opened(folder / "memories.sqlite")
        except sqlite3.Error as error:
            self._lock_file.close()
            raise StoreError(f"{folder / 'memories.sqlite'}: {error}; without it no checkpoint can be used") from error
        self._busy = Lock()  # whoever uses the database holds it
        self._index = _Index()
        self._pending: dict[int, Memory] = {}  # on their way to the disk
        self._writer = ThreadPoolExecutor(1, "igfl-store")
        self._writing: Future[None] | None = None
        self.round = 0  # rounds done: what is written meanwhile belongs to the next
        self.memories = Memories(limit=limit, write=self._write_early, read=self._read)

    def save(self, state: ServerState, chain: Chain, facts: Mapping[str, str] | None = None) -> None:
        """Write a checkpoint beside the training, once the one before is written."""
        self.wait()
        self._pending = self.memories.take_changed()
        order = _Order(state, chain, facts or {}, dict(self._pending))
        self._writing = self._writer.submit(self._write, order, self._index.now())

    def wait(self) -> None:
        """Until what was saved is on the disk; raises what kept it from getting there."""
        writing, self._writing = self._writing, None
        if writing is None:
            return
        try:
            writing.result()
        except Exception as error:  # whatever happened in the thread
            rounds = self._rounds()
            last = f"the last good checkpoint is of round {rounds[-1]}" if rounds else "there is no checkpoint yet"
            raise StoreError(f"{self.folder}: cannot write a checkpoint: {error}; {last}") from error
        finally:
            self._pending = {}

    def load(self) -> Checkpoint | None:
        """The newest checkpoint that is whole, its memories with it; None where none was ever written."""
        skipped: list[str] = []
        for round in reversed(self._rounds()):
            try:
                checkpoint, named = read(self._path(round))
                memories = self._open_memories(named)
            except Broken as why:
                skipped.append(f"checkpoint of round {round}: {why}")
                continue
            self._index.start_from(named)
            self.round = round
            self.memories.start_from(memories, named)
            self._purge()  # whatever a killed process left behind
            return Checkpoint(
                state=checkpoint.state, chain=checkpoint.chain, facts=checkpoint.facts, skipped=tuple(skipped)
            )
        if skipped:
            raise StoreError(f"{self.folder}: no checkpoint can be used: {'; '.join(skipped)}")
        return None

    def close(self) -> None:
        """Finish writing, and let others work on the run."""
        try:
            self.wait()
        finally:
            self._writer.shutdown()
            self._database.close()
            self._lock_file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _write(self, order: _Order, named: dict[int, Row]) -> None:
        """First the rows, then the file that names them, then out with what nobody names."""
        written = self._insert(order.changed, order.state.round)
        named.update(written)
        self._index.add(written)
        write_whole(self._path(order.state.round), packed(order.state, order.chain, order.facts, named))
        for round in self._rounds()[:-KEPT]:
            self._path(round).unlink()
        self._purge(order.state.round)

    def _write_early(self, memories: Mapping[int, Memory]) -> None:
        """Memories that leave this process between checkpoints, as rows of the round that is being trained."""
        try:
            self._index.add(self._insert(memories, self.round + 1))
        except sqlite3.Error as error:
            raise StoreError(f"{self.folder}: cannot write memories: {error}") from error
        for client in memories:
            self._pending.pop(client, None)  # what is on its way is an older one

    def _insert(self, memories: Mapping[int, Memory], round: int) -> dict[int, Row]:
        rows, blobs = {}, []
        for client, memory in memories.items():
            data = pack(memory.packed())
            rows[client] = (round, sha256(data).digest())
            blobs.append((client, round, data))
        with self._busy:
            self._database.execute("BEGIN")
            try:
                self._database.executemany("INSERT OR REPLACE INTO memories VALUES (?, ?, ?)", blobs)
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise
        return rows

    def _read(self, client: int) -> Memory:
        if client in self._pending:
            return self._pending[client]
        try:
            return self._open_row(client, self._index.of(client))
        except Broken as why:
            raise StoreError(f"{self.folder}: {why}") from why

    def _open_row(self, client: int, row: Row) -> Memory:
        round, expected = row
        with self._busy:
            try:
                found = self._database.execute(
                    "SELECT data FROM memories WHERE client = ? AND round = ?", (client, round)
                ).fetchone()
            except sqlite3.DatabaseError as error:
                raise Broken(f"memory of client {client}: {error}") from error
        if found is None or sha256(found[0]).digest() != expected:
            raise Broken(f"memory of client {client} from round {round} is {'missing' if found is None else 'corrupt'}")
        return Memory.unpacked(unpack(found[0]))

    def _open_memories(self, named: Mapping[int, Row]) -> dict[int, Memory]:
        """Every memory is read and checked; they are kept only where all are to be."""
        keep, found, broken = self.memories.limit is None, dict[int, Memory](), list[str]()
        for client, row in named.items():
            try:
                memory = self._open_row(client, row)
            except Broken as why:
                broken.append(str(why))
            else:
                if keep:
                    found[client] = memory
        if broken:
            raise Broken(", ".join(broken))
        return found

    def _purge(self, until: int = 2**62) -> None:
        """Out with rows that no checkpoint names and that are no client's newest; later ones are still being made."""
        named = {(client, row[0]) for client, row in self._index.now().items()}
        for round in self._rounds():
            try:
                named.update((client, row[0]) for client, row in read(self._path(round))[1].items())
            except Broken:
                continue  # it is not used any more
        with self._busy:
            present = self._database.execute("SELECT client, round FROM memories WHERE round <= ?", (until,)).fetchall()
            spare = [key for key in present if key not in named]
            self._database.execute("BEGIN")
            self._database.executemany("DELETE FROM memories WHERE client = ? AND round = ?", spare)
            self._database.execute("COMMIT")

    def _rounds(self) -> Sequence[int]:
        """Of the checkpoints that are there, oldest first."""
        return sorted(int(path.stem.partition("-")[2]) for path in self.folder.glob("checkpoint-*.safetensors"))

    def _path(self, round: int) -> Path:
        return self.folder / f"checkpoint-{round:08}.safetensors"


def _opened(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    database.execute("PRAGMA journal_mode = TRUNCATE")  # rows are new pages, which need no journal
    database.execute("PRAGMA synchronous = FULL")
    database.execute(_SCHEMA)
    return database
