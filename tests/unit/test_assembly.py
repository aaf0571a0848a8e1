"""A writer's parts go on where recovery ended."""

from tests.support.sessions import make_session, open_inline


def test_log_goes_on_with_the_next_seq_segment_and_epoch(tmp_path):
    path = make_session(tmp_path / "s1", 3)
    with open_inline(path) as engine:
        writer = engine._writer
        assert writer is not None
        assert (writer._log.place.seq, writer._log.next_number, writer._log.epoch) == (3, 2, 2)
        assert engine.append("counted", 4).seq == 4
