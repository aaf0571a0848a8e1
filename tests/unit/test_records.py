"""A place in the log and the order of places."""

from durasess.engine.records import Place, Record


def test_place_says_seq_and_chain_value() -> None:
    assert str(Place(3, 0x0A1B2C3D)) == "seq 3 with chain value 0a1b2c3d"


def test_later_place_is_greater() -> None:
    assert max(Place(9, 0), Place(10, 0)) == Place(10, 0)


def test_record_is_proven_unless_said_otherwise() -> None:
    assert Record(0, b"", 1, None, 0).proven is True
