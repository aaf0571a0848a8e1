"""P5: seq is unique, without gaps, in real-time order, over all threads and processes."""

import os
import threading

import pytest

from durasess import SessionLockedError
from tests.support.sessions import open_session, open_sim, sim_disk


def times(path, threads, each):
    """(seq, invoked, returned) of appends that many threads made at once."""
    tick = iter(range(10**9)).__next__
    found = []

    def work(name):
        for n in range(each):
            invoked = tick()
            seq = engine.append("t", [name, n]).seq
            found.append((seq, invoked, tick()))

    with open_session(path) as engine:
        workers = [threading.Thread(target=work, args=(name,)) for name in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    return sorted(found)


def is_in_real_time_order(found):
    """No append that returned before another was begun has the larger seq."""
    begun = -1
    for _, invoked, returned in found:
        if returned < begun:
            return False
        begun = max(begun, invoked)
    return True


def test_p5_seqs_of_16_threads_have_no_gap_and_keep_real_time_order(tmp_path):
    found = times(tmp_path / "s1", 16, 25)
    assert [seq for seq, _, _ in found] == list(range(1, 401))
    assert is_in_real_time_order(found)


def test_p5_has_teeth_the_order_check_finds_a_swap():
    assert is_in_real_time_order([(1, 0, 1), (2, 2, 3)])
    assert not is_in_real_time_order([(1, 2, 3), (2, 0, 1)])


def append_in_a_child(path, count):
    """Appends of another process, which waits for its turn."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            for _ in range(count):
                while True:
                    try:
                        engine = open_session(path)
                        break
                    except SessionLockedError:
                        continue
                engine.append("t", os.getpid())
                engine.close()
            code = 0
        finally:
            os._exit(code)
    return pid


def test_p5_processes_that_take_turns_never_use_a_seq_twice(tmp_path):
    open_session(tmp_path / "s1").close()
    children = [append_in_a_child(tmp_path / "s1", 8) for _ in range(3)]
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    assert codes == [0, 0, 0]
    with open_session(tmp_path / "s1") as engine:
        assert [event.seq for event in engine.events()] == list(range(1, 25))
        assert sorted(engine.state) == sorted(children * 8)


def test_p5_second_writer_is_refused(tmp_path):
    with open_session(tmp_path / "s1"), pytest.raises(SessionLockedError):
        open_session(tmp_path / "s1")


def test_p5_refused_and_failed_appends_use_no_seq():
    files = sim_disk()
    engine = open_sim(files)
    engine.append("t", 1)
    files.short_write(5, then=None, where="events_0001.jsonl")
    for bad in (object(), 2):
        with pytest.raises(Exception, match=r"Nothing was (written|kept)"):
            engine.append("t", bad)
    assert engine.append("t", 3).seq == 2
    engine.close()


def test_p5_has_teeth_a_writer_that_does_not_look_mixes_with_a_foreign_one(monkeypatch):
    files = sim_disk()
    engine = open_sim(files, preallocate=0)
    engine.append("t", 1)
    fd = files.open("/store/s1/events_0001.jsonl", write=True)
    files.write_at(fd, b'{"seq":2}\n' * 20, files.size(fd))
    monkeypatch.setattr(files, "size", lambda fd: engine._writer._log._size)
    monkeypatch.setattr(engine._writer, "check_owner", lambda: None)
    engine.append("t", 2)
    monkeypatch.undo()
    engine.abandon()
    with pytest.raises(Exception, match="damage"):
        open_sim(files)
