"""What an open refuses before it looks at the disk."""

import pytest

from durasess import Engine
from durasess.engine.arguments import check_arguments, checked_step


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"apply": 5}, "are functions, not 5"),
        ({"initial": {}}, "are functions, not {}"),
        ({"summary": "x"}, "are functions, not 'x'"),
        ({"schema_version": 0}, "schema_version is a whole number from 1, not 0"),
        ({"schema_version": "1"}, "schema_version is a whole number from 1, not '1'"),
        ({"schema_version": True}, "schema_version is a whole number from 1, not True"),
        ({"at_least": "a receipt"}, "at_least is a Receipt"),
        ({"at_least": {"seq": 1}}, "at_least is a Receipt"),
    ],
)
@pytest.mark.parametrize("mode", ["own", "read"])
def test_argument_of_a_wrong_kind_is_told_as_one_and_not_as_damage(tmp_path, given, told, mode):
    with Engine.open(tmp_path / "s1") as engine:
        engine.append("t", 1)
        engine.snapshot()
    with pytest.raises((ValueError, TypeError), match=told):
        Engine.open(tmp_path / "s1", mode=mode, **given)
    with Engine.open(tmp_path / "s1") as engine:
        assert engine.last_seq == 1


def test_arguments_that_fit_are_taken():
    check_arguments("own", 1, None, (dict, None))
    assert (checked_step(0), checked_step(512)) == (0, 512)


def test_mode_and_step_that_there_are_not():
    with pytest.raises(ValueError, match="mode is"):
        check_arguments("append", 1, None, ())
    with pytest.raises(ValueError, match="preallocate is a multiple of 512"):
        checked_step(511)
