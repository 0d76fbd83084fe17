"""The smallest useful searcher, as the floor that every figure of ours is compared with. Standard library only.

python benchmarks/floor_fts5.py index DB VAULT
python benchmarks/floor_fts5.py search DB QUERY K and|or
python benchmarks/floor_fts5.py serve DB and|or          (MCP over stdio)
"""

import json
import os
import re
import sqlite3
import sys
from collections.abc import Iterator
from typing import Any


def chunks(text: str) -> Iterator[tuple[str, str]]:
    """Cut a note at its headings: (heading, body), the frontmatter going with the first part."""
    front = re.match(r"---\n(.*?)\n---\n", text, re.S)
    meta, body = (front[1], text[front.end() :]) if front else ("", text)
    for number, part in enumerate(re.split(r"(?m)^(?=#{1,6} )", body)):
        if part.strip() or number == 0:
            heading = part.split("\n", 1)[0].lstrip("# ") if part.startswith("#") else ""
            yield heading, (meta + "\n" + part) if number == 0 else part


def connect(path: str) -> sqlite3.Connection:
    """Open the database and make its two tables."""
    connection = sqlite3.connect(path)
    connection.executescript(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
        "CREATE TABLE IF NOT EXISTS f(id INTEGER PRIMARY KEY, path TEXT UNIQUE, mtime INT, size INT);"
        "CREATE VIRTUAL TABLE IF NOT EXISTS c USING "
        "fts5(title, head, body, fid UNINDEXED, tokenize='porter unicode61 remove_diacritics 2')"
    )
    return connection


def index(path: str, vault: str) -> None:
    """Bring the database up to date with the vault; files with an equal stamp are not read."""
    connection = connect(path)
    old = {p: (mtime, size, key) for key, p, mtime, size in connection.execute("SELECT id, path, mtime, size FROM f")}
    for folder, folders, files in os.walk(vault):
        folders[:] = [name for name in folders if name[0] != "."]
        for name in files:
            if not name.endswith(".md"):
                continue
            full = os.path.join(folder, name)
            stamp, relative = os.stat(full), os.path.relpath(full, vault)
            before = old.pop(relative, None)
            if before and before[:2] == (stamp.st_mtime_ns, stamp.st_size):
                continue
            if before:
                forget(connection, before[2])
            put(connection, full, relative, stamp)
    for _, _, key in old.values():
        forget(connection, key)
    connection.commit()


def put(connection: sqlite3.Connection, full: str, relative: str, stamp: os.stat_result) -> None:
    """Add one file and its chunks."""
    row = (relative, stamp.st_mtime_ns, stamp.st_size)
    key = connection.execute("INSERT INTO f(path, mtime, size) VALUES(?, ?, ?)", row).lastrowid
    with open(full, encoding="utf-8", errors="replace") as file:
        text = file.read()
    title = os.path.basename(full)[:-3]
    rows = [(title, heading, body, key) for heading, body in chunks(text)]
    connection.executemany("INSERT INTO c(title, head, body, fid) VALUES(?, ?, ?, ?)", rows)


def forget(connection: sqlite3.Connection, key: int) -> None:
    """Remove one file and its chunks."""
    connection.execute("DELETE FROM c WHERE rowid IN (SELECT rowid FROM c WHERE fid = ?)", (key,))
    connection.execute("DELETE FROM f WHERE id = ?", (key,))


def search(connection: sqlite3.Connection, query: str, count: int, mode: str) -> list[tuple[str, str]]:
    """The best notes, (path, text of the best chunk), best first; `mode` joins the words by "or" or, else, "and"."""
    words = re.findall(r"\w+", query)
    if not words:
        return []
    match = (" OR " if mode == "or" else " ").join(f'"{word}"' for word in dict.fromkeys(words))
    rows = connection.execute(
        "SELECT f.path, c.body, bm25(c, 8, 4, 1) s FROM c JOIN f ON f.id = c.fid WHERE c MATCH ? ORDER BY s LIMIT ?",
        (match, count * 6),
    )
    best: dict[str, str] = {}
    for path, body, _ in rows:
        best.setdefault(path, body[:1500])
    return list(best.items())[:count]


def serve(connection: sqlite3.Connection, mode: str) -> None:
    """Answer MCP requests on stdin, one JSON object a line."""
    for line in sys.stdin:
        request = json.loads(line)
        result: dict[str, Any] = {}
        if request.get("method") == "initialize":
            result = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "floor", "version": "1"},
            }
        elif request.get("method") == "tools/call":
            arguments = request["params"]["arguments"]
            found = search(connection, arguments["query"], arguments["k"], mode)
            result = {"content": [{"type": "text", "text": json.dumps(found)}]}
        if "id" in request:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}) + "\n")
            sys.stdout.flush()


def main() -> None:
    """Run one of the three verbs."""
    verb, path = sys.argv[1:3]
    if verb == "index":
        index(path, sys.argv[3])
    elif verb == "search":
        print(json.dumps(search(connect(path), sys.argv[3], int(sys.argv[4]), sys.argv[5])))
    else:
        serve(connect(path), sys.argv[3])


if __name__ == "__main__":
    main()
