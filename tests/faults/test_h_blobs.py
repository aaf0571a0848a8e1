"""FAULTS H1: the same large images in entry after entry."""

import base64

from durasess.engine.files import RealFiles
from durasess.engine.verify import verify
from durasess.session.out_of_line import load, store_large
from tests.support.sessions import open_inline

IMAGES = 50
DISTINCT = 5
IMAGE_BYTES = 4 * 1024 * 1024


def image(number):
    """Base64 as a provider sends it: not compressible, each of `DISTINCT` different."""
    seed = bytes((number % DISTINCT + step * 7) % 256 for step in range(1024 * 3))
    return base64.b64encode(seed * (IMAGE_BYTES // len(seed) + 1)).decode()[:IMAGE_BYTES]


def test_h1_fifty_images_of_which_five_differ_take_five_files_and_a_small_log(tmp_path):
    path = tmp_path / "s1"
    with open_inline(path) as engine:
        for number in range(IMAGES):
            data = {"output": [{"type": "image", "data": image(number)}]}
            engine.append("tool_result", store_large(data, engine.put_blob))
        engine.snapshot()
    blobs = list((path / "blobs").iterdir())
    assert [blob.stat().st_size for blob in blobs] == [IMAGE_BYTES] * DISTINCT
    assert sum(one.stat().st_size for one in path.iterdir() if one.is_file()) < 100_000
    with open_inline(path) as engine:
        for number, data in enumerate(engine.state):
            assert load(data, engine.read_blob)["output"][0]["data"] == image(number)
    assert verify(str(path), files=RealFiles()).damage == []
