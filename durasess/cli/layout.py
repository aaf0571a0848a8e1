"""A session's directory as a tree: what each name is, known or foreign. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from durasess.cli.blocks import Branch, Tone, count, number
from durasess.cli.metered import size_of
from durasess.engine import files, paths

MANY = 8
"""So many segments are listed one by one, and names in a folder; more are summed up."""

_LISTED = 200
"""Names in one folder that are listed; of more it is said how many there are."""

_NOTES = {
    "meta": "who the session is, and how far the log must reach",
    "snapshot": "the newest snapshot",
    "previous": "the snapshot before it",
    "owner": "lock file: who has the session open for writing",
    "lock": "the anchor: where the log ended",
    "quarantine": "bytes that recovery or repair took out of other files",
    "workers": "a file for each writer that shares the session",
    "blobs": "large values, named by what they hash to",
    "blob": "blob",
    "tmp": "left over from a publish that was cut short, never read",
    "foreign": "foreign, never touched",
}
_TONES: dict[str, Tone] = {"tmp": "warn", "foreign": "warn", "quarantine": "warn"}


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A name in the directory: `kind` as `paths.parse` tells it, inside of folders "folder", "file"
    or "blob"; `bytes` is None for a folder; `inside` names what is in it."""

    name: str
    kind: str
    bytes: int | None
    inside: list[Entry] = msgspec.field(default_factory=list)


def entries(disk: files.Files, directory: str) -> list[Entry]:
    """Everything in a session's directory, folders with what is directly in them."""
    found = []
    for name in sorted(disk.listdir(directory)):
        kind = paths.parse(name).kind
        path = paths.join(directory, name)
        if not _is_folder(disk, path):
            found.append(Entry(name=name, kind=kind, bytes=size_of(disk, path)))
            continue
        inside = _inside(disk, path, of_blobs=kind == "blobs")
        found.append(Entry(name=name, kind=kind, bytes=None, inside=inside))
    return found


def tree(session_id: str, found: list[Entry]) -> Branch:
    """The directory as people see it; a long run of segments is one line."""
    # By number: events_10000 comes after events_9999.
    segments = [one for one in found if one.kind == "segment"]
    segments.sort(key=lambda one: (paths.parse(one.name).number, one.name))
    others = [one for one in found if one.kind != "segment"]
    before = [_branch(one) for one in others if segments and one.name < segments[0].name]
    behind = [_branch(one) for one in others[len(before) :]]
    return Branch(f"{session_id}/", "", "plain", (*before, *_segments(segments), *behind))


def _inside(disk: files.Files, path: str, *, of_blobs: bool) -> list[Entry]:
    try:
        names = sorted(disk.listdir(path))
    except OSError:
        return []
    found = []
    for name in names:
        one = paths.join(path, name)
        is_folder = _is_folder(disk, one)
        size = None if is_folder else size_of(disk, one)
        kind = "folder" if is_folder else _kind_of_blob(name) if of_blobs else "file"
        found.append(Entry(name=name, kind=kind, bytes=size))
    return found


def _kind_of_blob(name: str) -> str:
    if paths.is_blob(name):
        return "blob"
    return "foreign" if paths.blob_of_tmp(name) is None else "tmp"


def _is_folder(disk: files.Files, path: str) -> bool:
    try:
        return disk.stat(path).directory
    except OSError:
        return False


def _branch(one: Entry) -> Branch:
    note = _NOTES.get(one.kind, "")
    if one.kind in ("tmp", "foreign", "file", "blob"):
        note = ", ".join(filter(None, [_size(one), note]))
    name = one.name + ("/" if one.bytes is None else "")
    return Branch(name, note, _TONES.get(one.kind, "plain"), tuple(_folder(one.inside)))


def _folder(inside: list[Entry]) -> Iterator[Branch]:
    yield from (_branch(one) for one in inside[:_LISTED])
    if len(inside) > _LISTED:
        yield Branch(f"… {number(len(inside) - _LISTED)} more")


def _segments(segments: list[Entry]) -> Iterator[Branch]:
    if len(segments) <= MANY:
        yield from (Branch(one.name, "segment") for one in segments)
        return
    note = f"to {segments[-1].name}: {count(len(segments), 'segment')}"
    yield Branch(segments[0].name, note)


def _size(one: Entry) -> str:
    return "" if one.bytes is None else count(one.bytes, "byte")
