"""What a checkpoint says of itself, and how it is known to be as it was written."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sidequest.runs.shards import Damaged, FileNote

MANIFEST = "manifest.json"
SCHEMA = 5
LARGEST = 2**28
"""Bytes that a manifest may have."""


class Manifest(NamedTuple):
    """What a checkpoint says of itself; digests of its files have not been compared."""

    path: Path
    run: dict[str, Any]
    frames: int
    host: dict[str, Any]
    records: dict[str, int]
    leaves: dict[str, tuple[int, tuple[int, ...], str]]
    """Path in the tree -> number, shape and dtype of an array."""
    files: dict[str, FileNote]


def read_manifest(path: Path) -> Manifest:
    """Raises `Damaged` if the manifest is not as it was written, or of another schema."""
    try:
        if (path / MANIFEST).stat().st_size > LARGEST:
            raise Damaged(f"{MANIFEST} is too large")
        text = (path / MANIFEST).read_bytes()
        content = json.loads(text)
        body = content["manifest"]
        if body.get("schema") != SCHEMA:
            raise Damaged(
                f"it is of schema {body.get('schema')}; this version reads {SCHEMA}"
            )
        if sealed(body) != text:
            raise Damaged(f"{MANIFEST} does not have the digest that it was written with")
        leaves = {
            leaf["path"]: (number, tuple(leaf["shape"]), leaf["dtype"])
            for number, leaf in enumerate(body["state"])
        }
        files = {name: FileNote(**note) for name, note in body["files"].items()}
        return Manifest(
            path,
            body["run"],
            int(body["frames"]),
            body["host"],
            body["records"],
            leaves,
            files,
        )
    except OSError as error:
        raise Damaged(f"{MANIFEST} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Damaged(f"{MANIFEST} is no manifest: {type(error).__name__}") from None


def sealed(body: Mapping[str, Any]) -> bytes:
    """A manifest's bytes: its content and the digest of that."""
    text = json.dumps(body, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f'{{"sha256": "{digest}",\n"manifest": {text}}}\n'.encode()
