"""Files of data sets: the user's own first, then the cache, then the address; what is said of damage, and of none."""

import numpy as np
import pytest

from studies.bench import files
from studies.bench.files import check_digest, file_at


def test_the_users_folder_comes_first_then_the_cache_then_the_address(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    far, place = tmp_path / "far.txt", "poker_hand/cards.data"
    far.write_text("far")
    found = file_at(tmp_path / "empty", place, far.as_uri())
    assert found == tmp_path / "home" / "janossy" / place and found.read_text() == "far"
    far.unlink()
    assert file_at(None, place, far.as_uri()) == found
    own = tmp_path / "own" / place
    own.parent.mkdir(parents=True)
    own.write_text("own")
    assert file_at(tmp_path / "own", place, far.as_uri()) == own


def test_what_cannot_be_had_says_where_to_put_it(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    with pytest.raises(
        OSError, match=r"a/b\.csv is not below .*folder, and could not be downloaded from file:.*Give the"
    ):
        file_at(tmp_path / "folder", "a/b.csv", (tmp_path / "none.csv").as_uri())
    assert not (tmp_path / "janossy" / "a" / "b.csv").exists()


def test_a_file_without_end_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(files, "MAX_DOWNLOAD", 10**6)
    far = tmp_path / "far.bin"
    far.write_bytes(bytes(3 * 10**6))
    with pytest.raises(OSError, match="more than 1,000,000 bytes"):
        file_at(None, "a/far.bin", far.as_uri())
    assert [each for each in (tmp_path / "home").rglob("*") if each.is_file()] == []


def test_content_is_known_by_dtype_shape_and_values(tmp_path):
    digest = "7c3e"
    arrays = [np.arange(6).reshape(2, 3), np.array(["C", "Cl"])]
    with pytest.raises(ValueError, match=r"expects content of SHA-256 7c3e; got ([0-9a-f]{64})") as error:
        check_digest(tmp_path, arrays, digest)
    digest = str(error.value).split("got ")[1][:64]
    check_digest(tmp_path, [np.asfortranarray(arrays[0]), arrays[1].astype(">U2")], digest)
    for changed in (arrays[0].T, arrays[0].astype(np.int32), arrays[0] + 1):
        with pytest.raises(ValueError, match="expects content"):
            check_digest(tmp_path, [changed, arrays[1]], digest)
