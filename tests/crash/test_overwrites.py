"""What the crash model says of a write inside a file: where it is missing, the old bytes stay."""

import pytest

from durasess.engine.types import FILLER, SECTOR
from tests.support.crash_driver import EMPTY, Driver, Options, options_of, parse_plan
from tests.support.crash_oracle import Oracle
from tests.support.crash_states import PROFILES, CrashState, Settings, crash_states, cuts
from tests.support.explorer import FILLER_ALPHABET, Explorer
from tests.support.sim_files import Op, SimFiles, Tree

OLD = b"old." + FILLER * (2 * SECTOR - 4)
"""A segment in small: something that was written, and filler behind it to the end of a sector."""

EVERY_BYTE = Settings(every_byte=True)


def opened() -> tuple[SimFiles, int]:
    """A disk with a file that has filler, and the file."""
    files = SimFiles.from_tree({"/d/a": OLD})
    return files, files.open("/d/a", write=True)


def contents(files: SimFiles, settings: Settings = EVERY_BYTE) -> set[bytes]:
    """What the file may be found with."""
    found = crash_states(files.base, files.log, settings)
    return {state.tree["/d/a"] or b"" for state in found}


@pytest.mark.parametrize("profile", PROFILES)
def test_a_write_that_is_cut_short_leaves_the_filler_behind_it(profile: str) -> None:
    files, fd = opened()
    files.write_at(fd, b"new.", 4)
    expected = {OLD[:4] + b"new."[:cut] + OLD[4 + cut :] for cut in range(5)}
    found = contents(files, Settings(profile=profile, every_byte=True))
    assert found == expected


def test_a_sector_that_was_not_written_shows_the_filler() -> None:
    files, fd = opened()
    new = b"n" * (2 * SECTOR - 4)
    files.write_at(fd, new, 4)
    found = contents(files)
    assert OLD[:SECTOR] + new[SECTOR - 4 :] in found
    assert OLD[:4] + new[: SECTOR - 4] + OLD[SECTOR:] in found
    assert all(len(data) == len(OLD) and b"\0" not in data for data in found)


@pytest.mark.parametrize("profile", ["weakest", "ordered"])
def test_a_cut_may_clear_the_rest_of_a_block_and_not_shorten_the_file(profile: str) -> None:
    files, fd = opened()
    files.truncate(fd, 4)
    cleared = {OLD[:4] + bytes(SECTOR - 4) + OLD[SECTOR:], OLD[:4] + bytes(len(OLD) - 4)}
    assert contents(files, Settings(profile=profile)) == {OLD, OLD[:4], *cleared}


def test_zeros_stand_only_behind_the_old_end() -> None:
    files, fd = opened()
    new = b"n" * (2 * SECTOR)
    files.write_at(fd, new, 2 * SECTOR - 10)
    found = contents(files)
    assert OLD + bytes(2 * SECTOR - 10) in found
    assert OLD[:-10] + new[:3] + OLD[-7:] in found
    assert OLD[:-10] + new[:3] + OLD[-7:] + bytes(2 * SECTOR - 10) in found
    assert OLD + new[10:] in found
    assert not any(b"\0" in data[: len(OLD)] for data in found)


def test_zeros_and_filler_share_a_sector_where_the_old_end_is_inside_it() -> None:
    files = SimFiles.from_tree({"/d/a": b"old." + FILLER * 60})
    fd = files.open("/d/a", write=True)
    files.write_at(fd, b"n" * 1000, 4)
    hole = b"old." + FILLER * 60 + bytes(SECTOR - 64)
    assert hole + b"n" * (1004 - SECTOR) in contents(files)


def test_a_cut_that_was_done_before_the_write_in_front_of_it_leaves_filler_or_a_torn_write() -> (
    None
):
    files, fd = opened()
    files.write_at(fd, b"seal", 4)
    files.truncate(fd, 8)
    files.sync(fd)
    torn = {(OLD[:4] + b"seal"[:cut]).ljust(8, FILLER) for cut in range(5)}
    assert contents(files) >= torn
    last = crash_states(files.base, files.log, EVERY_BYTE, start=len(files.log))
    assert [state.tree["/d/a"] for state in last] == [b"old.seal"]


def test_a_truncate_makes_a_torn_write_longer_with_zeros() -> None:
    files, fd = opened()
    files.write_at(fd, b"n" * 20, 2 * SECTOR - 10)
    files.truncate(fd, 2 * SECTOR + 5)
    found = contents(files)
    assert OLD + bytes(5) in found
    assert OLD[:-10] + b"n" * 12 + bytes(3) in found


def test_dropped_pages_show_the_filler_again_and_zeros_behind_the_old_end() -> None:
    files, fd = opened()
    files.write_at(fd, b"n" * 30, 2 * SECTOR - 10)
    files.write_at(fd, b"m" * 30, 2 * SECTOR - 5)
    files.fail_sync(pages="drop")
    with pytest.raises(OSError, match="Input/output"):
        files.sync(fd)
    assert files.tree()["/d/a"] == OLD + bytes(25)
    last = crash_states(files.base, files.log, EVERY_BYTE, start=len(files.log))
    assert {state.tree["/d/a"] for state in last} >= {OLD, OLD + bytes(25)}
    assert not any(b"n" in state.tree["/d/a"] for state in last)


def test_dropped_pages_stay_cut_off() -> None:
    files, fd = opened()
    files.write_at(fd, b"seal", 4)
    files.truncate(fd, 8)
    files.fail_sync(pages="drop")
    with pytest.raises(OSError, match="Input/output"):
        files.sync(fd)
    assert files.tree()["/d/a"] == b"old." + FILLER * 4
    files.write_at(fd, b"more", 8)
    assert files.tree()["/d/a"] == b"old." + FILLER * 4 + b"more"


def test_a_write_with_filler_is_torn_in_its_lines_too() -> None:
    op = Op("write", 1, data=b"one\ntwo\n" + FILLER * 400)
    assert {1, 3, 4, 7, 8, 204, 407} <= set(cuts(op, every_byte=False))


# The driver's steps for filler do what they say.


def test_plans_have_no_filler_unless_they_say_so() -> None:
    assert options_of(parse_plan("append"))[0].preallocate == 0
    assert options_of(parse_plan("every2,fill512,append")) == (
        Options(snapshot_every=2, preallocate=512),
        ("append",),
    )


def sizes_of(plan: str) -> list[int]:
    """The sizes that the first segment had after each write."""
    driver = Driver(parse_plan(plan))
    files = driver.run()
    (number,) = {
        op.node for op in files.log if op.kind == "write" and op.data[:11] == b'{"segment":'
    }
    sizes, size = [], 0
    for op in files.log:
        if op.node == number and op.kind in ("write", "truncate"):
            size = op.offset if op.kind == "truncate" else max(size, op.offset + len(op.data))
            sizes.append(size)
    return sizes


def test_a_segment_of_a_plan_with_filler_grows_in_steps_and_ends_with_its_seal() -> None:
    sizes = sizes_of("fill512,append,many3,rotate")
    assert sizes[:-1] == sorted(sizes[:-1])
    assert {size % 512 for size in sizes[:-1]} == {0}
    assert len(set(sizes[:-1])) > 1
    assert sizes[-1] % 512 and sizes[-1] < sizes[-2]


def test_a_write_cut_short_in_its_filler_makes_the_size_odd() -> None:
    assert any(size % 512 for size in sizes_of("fill512,shortfill"))


@pytest.mark.parametrize("step", FILLER_ALPHABET)
def test_every_step_runs_with_filler(step: str) -> None:
    Driver(parse_plan(f"fill512,append,{step},append,close")).run()


@pytest.mark.parametrize("preallocate", [0, 512])
def test_what_goes_on_after_a_crash_has_filler_where_the_plan_has_it(preallocate: int) -> None:
    made: list[SimFiles] = []

    def make_files(tree: Tree) -> SimFiles:
        made.append(SimFiles.from_tree(tree))
        return made[-1]

    oracle = Oracle(make_files=make_files, preallocate=preallocate)
    assert oracle.problems(CrashState(0, dict(EMPTY), None, 0)) == []
    writes = [op.data for files in made for op in files.log if op.kind == "write"]
    assert any(data.endswith(FILLER) for data in writes) == bool(preallocate)
    explorer = Explorer(oracle=oracle)
    assert explorer._oracle_for(parse_plan("append")) is oracle
    assert explorer._oracle_for(parse_plan("fill512,append")) is not oracle
