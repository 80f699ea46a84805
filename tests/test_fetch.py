"""Downloads, from a real server on this machine: checked, resumed, from a mirror when the first address fails."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from igfl.data import DataError, npz
from igfl.data.fetch import SOURCES, Source, fetch


class Server(ThreadingHTTPServer):
    """Serves `files`; breaks off once after `cut` bytes where that is set."""

    files: dict[str, bytes]
    cut: int | None = None
    asked: list[tuple[str, str | None]]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.asked.append((self.path, wanted))
        content = self.server.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        if start >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        end, self.server.cut = self.server.cut, None
        self.wfile.write(content[start:end])

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as found:
        found.files, found.asked = {}, []
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield found
        found.shutdown()


def archive(kind: str, rows: int = 40_000) -> bytes:
    inner, outer = io.BytesIO(), io.BytesIO()
    np.savez(inner, x=np.random.default_rng(0).normal(size=(rows, 9)), y=np.arange(rows) % 3)
    if kind == "zip":
        with zipfile.ZipFile(outer, "w") as made:
            made.writestr("inside/own.npz", inner.getvalue())
    else:
        with tarfile.open(fileobj=outer, mode="w:gz") as made:
            entry = tarfile.TarInfo("inside/own.npz")
            entry.size = len(inner.getvalue())
            made.addfile(entry, io.BytesIO(inner.getvalue()))
    return outer.getvalue()


def read(path: Path) -> object:
    return npz(path / "sub" / "inside" / "own.npz")


def source(server: Server, kind: str, *, name: str = "own.pack", content: bytes | None = None) -> Source:
    content = content or archive(kind)
    server.files[f"/mirror/{name}"] = content
    base = f"http://127.0.0.1:{server.server_port}"
    digest = hashlib.sha256(content).hexdigest()
    return Source(
        urls=(f"{base}/gone/{name}", f"{base}/mirror/{name}"), folder="sub", hash=f"sha256:{digest}", unpack=kind
    )


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_downloads_from_a_mirror_unpacks_and_reads(server: Server, tmp_path: Path, kind: str) -> None:
    seen, sources = [], [source(server, kind)]
    found = fetch("own", tmp_path, sources=sources, read=read, progress=lambda *step: seen.append(step))
    assert len(found.x) + len(found.test.x) == 40_000
    assert [path for path, _ in server.asked] == ["/gone/own.pack", "/mirror/own.pack"]
    assert seen[-1][1] == seen[-1][2] == len(server.files["/mirror/own.pack"])
    fetch("own", tmp_path, sources=sources, read=read)
    assert len(server.asked) == 2  # it was there


def test_goes_on_where_it_broke_off(server: Server, tmp_path: Path) -> None:
    one = source(server, "zip")
    server.cut = 1_000_000
    with pytest.raises(DataError, match=r"cannot download own.pack; run the same command again to go on.*127\.0\.0\.1"):
        fetch("own", tmp_path, sources=[one], read=read)
    have = (tmp_path / "sub" / "own.pack.part").stat().st_size
    assert 900_000 < have <= 1_000_000
    fetch("own", tmp_path, sources=[one], read=read)
    assert server.asked[-1] == ("/mirror/own.pack", f"bytes={have}-")
    assert not list(tmp_path.rglob("*.part"))


def test_what_arrives_is_checked(server: Server, tmp_path: Path) -> None:
    one = source(server, "zip")
    good = server.files["/mirror/own.pack"]
    server.files["/mirror/own.pack"] = good[:-1] + bytes([good[-1] ^ 1])
    with pytest.raises(DataError, match=r"hash .*does not match"):
        fetch("own", tmp_path, sources=[one], read=read)
    assert not list(tmp_path.rglob("own.npz"))
    server.files["/mirror/own.pack"] = good
    fetch("own", tmp_path, sources=[one], read=read)


def test_a_part_of_another_file_is_begun_anew(server: Server, tmp_path: Path) -> None:
    one = source(server, "zip")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "own.pack.part").write_bytes(b"x" * 10**7)
    fetch("own", tmp_path, sources=[one], read=read)
    assert server.asked[-1] == ("/mirror/own.pack", None)


def test_official_addresses_are_of_known_sets() -> None:
    assert set(SOURCES) == {"cifar10", "mnist", "mnist_writers", "emnist"}
    for sources in SOURCES.values():
        assert all(url.startswith("https://") for one in sources for url in one.urls)
    with pytest.raises(ValueError, match="data='emnst': unknown, did you mean emnist"):
        fetch("emnst")
