"""Names: which are ours and what they mean, which are somebody else's, which ids are safe."""

import pytest

from durasess.engine import paths
from durasess.engine.paths import FileName

# segment


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (1, "events_0001.jsonl"),
        (9999, "events_9999.jsonl"),
        (10000, "events_10000.jsonl"),
        (10**15 - 1, "events_999999999999999.jsonl"),
    ],
)
def test_segment_name_has_four_digits_or_more(number: int, name: str) -> None:
    assert paths.segment(number) == name
    assert paths.segment(number, compressed=True) == name + ".zst"


@pytest.mark.parametrize("number", [-1, 0, 10**15])
def test_segment_number_out_of_range_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match=rf"{number} is outside 1 to 999999999999999"):
        paths.segment(number)


# parse


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("meta.json", "meta"),
        ("snapshot.json.zst", "snapshot"),
        ("snapshot.prev.json.zst", "previous"),
        ("owner", "owner"),
        ("lock", "lock"),
        ("quarantine", "quarantine"),
        ("workers", "workers"),
        ("blobs", "blobs"),
        ("meta.json.tmp", "tmp"),
        ("snapshot.json.zst.tmp", "tmp"),
        ("events_0001.jsonl.tmp", "tmp"),
        ("events_0001.jsonl.zst.tmp", "tmp"),
        ("events.jsonl.zst.tmp", "tmp"),
        ("import.tmp", "tmp"),
    ],
)
def test_name_of_ours_is_known(name: str, kind: str) -> None:
    assert paths.parse(name) == FileName(kind)


@pytest.mark.parametrize("number", [1, 42, 9999, 10000, 123456, 10**14, 10**15 - 1])
@pytest.mark.parametrize("compressed", [False, True])
def test_segment_name_is_parsed_back(number: int, compressed: bool) -> None:
    name = paths.segment(number, compressed=compressed)
    assert paths.parse(name) == FileName("segment", number, compressed)


def test_events_10000_sorts_after_events_9999() -> None:
    names = ["events_10000.jsonl", "events_9999.jsonl"]
    assert sorted(names, key=lambda name: paths.parse(name).number) == names[::-1]


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        ".tmp",
        "META.JSON",
        "meta.json ",
        "meta.jsonl",
        "meta.json.bak",
        "meta.json.tmp.tmp",
        "meta.json.tmp~",
        "snapshot.json",
        "snapshot.prev.json",
        "snapshot.json.zst.zst",
        "Owner",
        "lock.lock",
        "quarantine.old",
        "events_0000.jsonl",
        "events_1.jsonl",
        "events_001.jsonl",
        "events_00001.jsonl",
        "events_00007.jsonl",
        "events_0123456.jsonl",
        "events_-001.jsonl",
        "events_+001.jsonl",
        "events_0001.json",
        "events_0001.jsonl\n",
        "events_0001.jsonl.gz",
        "events_0001.jsonl.zst.zst",
        "events_0001 (copy).jsonl",
        "events_00ab.jsonl",
        "events_٠٠٠١.jsonl",
        "events_0000000000000001.jsonl",
        "events_1000000000000000.jsonl",
        "events_00001.jsonl.tmp",
        "notes.tmp",
        "xevents_0001.jsonl",
        "events_0001.jsonlx",
        "\ud800",
    ],
)
def test_name_of_somebody_else_is_foreign(name: str) -> None:
    assert paths.parse(name) == FileName("foreign")


# session_id_problem


@pytest.mark.parametrize(
    "session_id",
    ["a", "Z", "0", "s1", "a-1.x_Y", "x" * 128, "a..b", "CONSOLE", "COM0", "COM10", "x.con", "lpt"],
)
def test_safe_name_is_a_session_id(session_id: str) -> None:
    assert paths.session_id_problem(session_id) is None


@pytest.mark.parametrize(
    "session_id",
    [
        "",
        ".",
        "..",
        ".a",
        "-a",
        "_a",
        "a/b",
        "a\\b",
        "a b",
        "a\n",
        "a\0",
        "a:b",
        "ä",
        "١",
        "x" * 129,
        None,
        7,
        b"a",
    ],
)
def test_name_outside_the_allow_list_is_no_session_id(session_id: object) -> None:
    problem = paths.session_id_problem(session_id)  # type: ignore[arg-type]
    assert problem is not None
    assert "1 to 128 characters of A-Z a-z 0-9 . _ -" in problem


@pytest.mark.parametrize("session_id", ["a.", "a.b.", "a.."])
def test_trailing_dot_is_no_session_id(session_id: str) -> None:
    assert paths.session_id_problem(session_id) == "a session id does not end with a dot"


@pytest.mark.parametrize(
    "session_id", ["CON", "con", "Prn", "aux", "NUL", "nul.txt", "com1", "COM9.a.b", "LPT1", "lpt9"]
)
def test_windows_device_is_no_session_id(session_id: str) -> None:
    problem = paths.session_id_problem(session_id)
    assert problem == "a session id is not the name of a Windows device"


# join, parent, base, building, quarantined


def test_join_parent_and_base_belong_together() -> None:
    path = paths.join("/store", "s1")
    assert (path, paths.parent(path), paths.base(path)) == ("/store/s1", "/store", "s1")
    assert paths.parent("/s1") == "/"


def test_join_follows_another_separator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths.os, "sep", "\\")
    monkeypatch.setattr(paths.os.path, "join", lambda *parts: "\\".join(parts))
    assert paths.join("C:\\store", "s1") == "C:\\store\\s1"


def test_session_under_construction_is_beside_its_place_under_a_dot_name() -> None:
    building = paths.building("/store/s1", "7f")
    assert building == "/store/.s1.7f.new"
    assert paths.session_id_problem(paths.base(building)) is not None


def test_quarantined_name_says_file_offset_and_content() -> None:
    assert paths.quarantined("events_0001.jsonl", 512, "0123456789abcdef" * 2) == (
        "events_0001.jsonl.512.0123456789abcdef"
    )
