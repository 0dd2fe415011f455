"""The store on disk: whole values or none, whatever happens to the folder, and whoever else uses it."""
import ctypes
import os
import shutil
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest

from codegen.artifacts import store as module
from codegen.artifacts.store import BLOCK, GROWTH, SHARES, TRAILER, UNFINISHED, Info, Store, key

FOLDER = Path(module.__file__).parent
LIMIT = 1 << 20
KEY, OTHER = key(name="one"), key(name="other")
VALUE = bytes(range(256)) * 20


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def store(folder):
    return Store(folder, LIMIT)


@pytest.fixture
def unsettled(monkeypatch):
    """Entries may be evicted at once."""
    monkeypatch.setattr(module, "SETTLED", 0.0)


@pytest.fixture
def warned(recwarn):
    """The warnings so far."""
    return lambda: [str(warning.message) for warning in recwarn]


def children(script, count=1, **settings):
    """Runs a script in `count` processes at the same time; answers with what each printed."""
    prelude = "import os, sys\nimport store as module\nfrom store import Store, key\n"  # without the package, which takes a second
    running = [subprocess.Popen([sys.executable, "-c", prelude + script, str(number)], cwd=FOLDER, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env={**os.environ, **settings}) for number in range(count)]
    outputs = [process.communicate(timeout=60) for process in running]
    assert all(process.returncode == 0 for process in running), outputs
    assert not any(errors for _, errors in outputs), outputs
    return [output for output, _ in outputs]


# --- keys ------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("one, other", [
    ({"a": "x"}, {"a": "y"}),
    ({"a": "x"}, {"b": "x"}),
    ({"a": "x"}, {"a": b"x"}),
    ({"a": "x", "b": "y"}, {"a": "y", "b": "x"}),
    ({"a": "x", "b": ""}, {"a": "x"}),
    ({"a": "x b text 1 y"}, {"a": "x", "b": "y"}),
    ({"ab": "c"}, {"a": "bc"}),
    ({"a": "é"}, {"a": "e"}),
])
def test_parts_that_differ_give_keys_that_differ(one, other):
    assert key(**one) != key(**other)


def test_a_key_does_not_depend_on_the_order_of_names_or_on_the_process():
    assert key(a="1", b="2") == key(b="2", a="1")
    assert children("print(key(a='1', b=b'2'))", PYTHONHASHSEED="1")[0].strip() == key(a="1", b=b"2")


@pytest.mark.parametrize("wrong", ["", "x", "../" + KEY, KEY.upper(), KEY + "0", "/" + KEY[1:], KEY + "\n"])
def test_what_is_no_key_is_refused(store, wrong):
    store.put(KEY, VALUE)
    for call in (store.get, store.path, lambda name: store.put(name, VALUE)):
        with pytest.raises(TypeError, match="not a key"):
            call(wrong)
    assert store.info().entries == 1


# --- values ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("value", [b"", b"x", VALUE, os.urandom(100_000), TRAILER.pack(b"framejit", 0, b"")], ids=["empty", "one", "some", "many", "trailer"])
def test_what_was_put_comes_back(store, value):
    assert store.get(KEY) is None
    assert store.path(KEY) is None
    path = store.put(KEY, value)
    assert store.get(KEY) == value
    assert store.path(KEY) == path
    assert path.read_bytes()[:len(value)] == value
    assert store.get(OTHER) is None


def test_put_again_replaces(store):
    store.put(KEY, b"first")
    store.put(KEY, b"second")
    assert store.get(KEY) == b"second" and store.info().entries == 1


def test_counts(store, folder):
    assert store.info() == Info(folder, 0, 0, 0, 0)
    assert not folder.exists(), "made when there is something to keep"
    store.get(KEY)
    store.put(KEY, VALUE)
    store.put(OTHER, b"")
    store.get(KEY)
    store.path(OTHER)
    assert store.info() == Info(folder, 2, len(VALUE) + 2 * TRAILER.size, 2, 1)


def test_clear_removes_ours_and_nothing_else(store, folder):
    for number in range(10):
        store.put(key(number=str(number)), VALUE)
    (folder / (UNFINISHED + "abc")).write_bytes(b"")
    (folder / "notes.txt").write_text("mine")
    store.clear()
    assert os.listdir(folder) == ["notes.txt"]
    assert store.get(key(number="1")) is None
    store.put(KEY, VALUE)
    assert store.get(KEY) == VALUE


def test_clear_of_a_folder_that_is_not_there(store, folder, warned):
    store.clear()
    assert not folder.exists() and not warned()


def test_no_folder_keeps_nothing(warned):
    store = Store(None, LIMIT)
    assert store.put(KEY, VALUE) is None and store.get(KEY) is None and store.path(KEY) is None
    store.clear()
    assert store.info() == Info(None, 0, 0, 0, 2) and not warned()


def test_folders_above_are_made_and_a_tilde_is_the_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Store("~/a/b/c", LIMIT).put(KEY, VALUE) == tmp_path / "a/b/c" / KEY


def test_a_folder_removed_while_in_use_is_made_again(store, folder, warned):
    store.put(KEY, VALUE)
    shutil.rmtree(folder)
    assert store.get(KEY) is None
    store.put(KEY, VALUE)
    assert store.get(KEY) == VALUE and not warned()


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a compiler")
def test_a_shared_library_loads_from_its_entry(store, tmp_path):
    built = tmp_path / "lib.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", built], input=b"int answer(void) { return 42; }", check=True)
    store.put(KEY, built.read_bytes())
    assert ctypes.CDLL(str(store.path(KEY))).answer() == 42


# --- damage ----------------------------------------------------------------------------------------------------------

def flipped(content, at):
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1:]


DAMAGE = {
    "empty file": lambda content: b"",
    "one byte": lambda content: b"x",
    "cut in the value": lambda content: content[:100],
    "cut in the trailer": lambda content: content[:-1],
    "trailer lost": lambda content: content[:-TRAILER.size],
    "only the trailer": lambda content: content[-TRAILER.size:],
    "first byte": lambda content: flipped(content, 0),
    "last byte of the value": lambda content: flipped(content, len(VALUE) - 1),
    "mark": lambda content: flipped(content, len(VALUE)),
    "size": lambda content: flipped(content, len(VALUE) + 8),
    "checksum": lambda content: flipped(content, len(content) - 1),
    "something behind": lambda content: content + b"\0",
    "something before": lambda content: b"\0" + content,
    "zeros, as after a power cut": lambda content: bytes(len(content)),
    "doubled": lambda content: content + content,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize("read", [Store.get, Store.path], ids=["get", "path"])
def test_a_damaged_entry_is_a_miss_and_goes_away(store, warned, damage, read):
    path = store.put(KEY, VALUE)
    path.write_bytes(damage(path.read_bytes()))
    path.chmod(0o600)
    assert read(store, KEY) is None
    assert not path.exists()
    assert store.info().misses == 1 and not warned()
    store.put(KEY, VALUE)
    assert store.get(KEY) == VALUE


def test_an_entry_under_another_name_is_not_that_entry(store):
    path = store.put(KEY, VALUE)
    shutil.copy(path, path.with_name(OTHER))
    assert store.get(OTHER) is None and store.get(KEY) == VALUE


@pytest.mark.parametrize("make", [
    lambda path, target: path.symlink_to(target),
    lambda path, target: os.mkfifo(path, 0o600),
    lambda path, target: path.mkdir(0o700),
], ids=["link", "pipe", "folder"])
def test_what_is_no_file_is_a_miss(store, make):
    target = store.put(KEY, VALUE)
    make(target.with_name(OTHER), target)
    before = len(os.listdir("/proc/self/fd"))
    assert store.get(OTHER) is None and store.path(OTHER) is None
    assert len(os.listdir("/proc/self/fd")) == before
    assert store.get(KEY) == VALUE


def test_a_link_to_a_good_entry_is_a_miss(store, tmp_path):
    path = store.put(KEY, VALUE)
    path.rename(tmp_path / KEY)
    path.symlink_to(tmp_path / KEY)
    assert store.get(KEY) is None and store.path(KEY) is None
    assert store.put(KEY, VALUE) == path and not path.is_symlink() and store.get(KEY) == VALUE


def test_a_damaged_note_of_growth_does_no_harm(store, folder):
    store.put(KEY, VALUE)
    (folder / GROWTH).unlink()
    (folder / GROWTH).mkdir()
    with pytest.warns(UserWarning, match="cannot write"):
        store.put(OTHER, VALUE)
    assert store.get(KEY) == VALUE and store.get(OTHER) == VALUE


def test_an_entry_without_a_file_handle_left_is_a_miss_and_stays(store, monkeypatch):
    path = store.put(KEY, VALUE)
    with monkeypatch.context() as patch:
        patch.setattr(module.os, "open", lambda *_: (_ for _ in ()).throw(OSError(24, "Too many open files")))
        assert store.get(KEY) is None
    assert path.exists() and store.get(KEY) == VALUE


# --- who may write ---------------------------------------------------------------------------------------------------

def test_folder_and_entries_are_private(store, folder):
    before = os.umask(0)
    try:
        path = store.put(KEY, VALUE)
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777, 0o770, 0o1777])
@pytest.mark.parametrize("filled", [False, True])
def test_a_folder_that_others_may_write_to_is_refused(store, folder, warned, mode, filled):
    folder.mkdir(0o700)
    if filled:
        store.put(KEY, VALUE)
    folder.chmod(mode)
    assert store.get(KEY) is None and store.put(OTHER, VALUE) is None and store.get(KEY) is None
    folder.chmod(0o700)
    assert store.get(KEY) is None, "it stays off"
    assert store.info().path is None
    assert [OTHER in os.listdir(folder), KEY in os.listdir(folder)] == [False, filled]
    [text] = warned()
    assert str(folder) in text and "written by other users" in text


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_an_entry_that_others_may_write_to_is_refused(store, warned, mode):
    path = store.put(KEY, VALUE)
    store.put(OTHER, VALUE)
    path.chmod(mode)
    assert store.get(KEY) is None and store.get(OTHER) is None and store.path(KEY) is None
    [text] = warned()
    assert str(path) in text


@pytest.mark.parametrize("mode", [0o644, 0o755, 0o400, 0o500])
def test_others_may_read(store, folder, warned, mode):
    path = store.put(KEY, VALUE)
    folder.chmod(0o755)
    path.chmod(mode)
    assert store.get(KEY) == VALUE and not warned()


@pytest.mark.parametrize("of", ["folder", "entry"])
def test_what_belongs_to_another_user_is_refused(store, folder, warned, monkeypatch, of):
    path = store.put(KEY, VALUE)
    if os.geteuid() == 0:
        os.chown(folder if of == "folder" else path, 12345, -1)
    elif of == "folder":
        monkeypatch.setattr(module.os, "geteuid", lambda: 12345)
    else:
        pytest.skip("only root can give a file away")
    assert store.get(KEY) is None and store.put(OTHER, VALUE) is None
    [text] = warned()
    assert "belongs to another user" in text


@pytest.mark.parametrize("mode, refused", [(0o777, True), (0o1777, False), (0o755, False), (0o702, True)])
def test_where_every_user_may_rename_the_folder_it_is_refused(tmp_path, warned, mode, refused):
    above = tmp_path / "above"
    (above / "between").mkdir(parents=True)
    above.chmod(mode)
    store = Store(above / "between" / "cache", LIMIT)
    store.put(KEY, VALUE)
    assert (store.get(KEY) is None) == refused == bool(warned())
    assert not refused or "rename" in warned()[0]


def test_a_link_is_followed_once(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    (tmp_path / "trap").mkdir()
    real.mkdir()
    link.symlink_to(real)
    store = Store(link / "cache", LIMIT)
    link.unlink()
    link.symlink_to(tmp_path / "trap")
    assert store.put(KEY, VALUE) == real / "cache" / KEY


# --- a disk that does not take it -----------------------------------------------------------------------------------

def failing(error):
    def fail(*args, **kwargs):
        raise error
    return fail


FAILURES = {
    "full when it is begun": ("tempfile.mkstemp", OSError(28, "No space left on device")),
    "full when it is finished": ("os.replace", OSError(28, "No space left on device")),
    "read-only": ("tempfile.mkstemp", OSError(30, "Read-only file system")),
}


@pytest.mark.parametrize("name, error", FAILURES.values(), ids=FAILURES)
def test_a_disk_that_takes_nothing_is_told_once_and_read_on(store, folder, warned, monkeypatch, name, error):
    store.put(KEY, VALUE)
    owner, _, function = name.partition(".")
    monkeypatch.setattr(getattr(module, owner), function, failing(error))
    for _ in range(3):
        assert store.put(OTHER, VALUE) is None
    assert store.get(KEY) == VALUE
    [text] = warned()
    assert str(error) in text
    assert sorted(os.listdir(folder)) == sorted([KEY, GROWTH]), "nothing unfinished is left"


def test_a_clear_while_another_process_writes_only_undoes_that_write(store, folder, warned, monkeypatch):
    def cleared(*paths, replace=os.replace):
        Store(folder, LIMIT).clear()
        replace(*paths)
    with monkeypatch.context() as patch:
        patch.setattr(module.os, "replace", cleared)
        assert store.put(KEY, VALUE) is None
    assert store.put(KEY, VALUE) and store.get(KEY) == VALUE and not warned()


def test_a_write_cut_short_leaves_nothing(store, folder, monkeypatch):
    monkeypatch.setattr(module, "_checksum", failing(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        store.put(KEY, VALUE)
    assert os.listdir(folder) == []


def test_a_file_in_the_place_of_the_folder(store, folder, warned):
    folder.write_text("not a folder")
    assert store.get(KEY) is None and store.put(KEY, VALUE) is None
    store.clear()
    assert folder.read_text() == "not a folder" and len(warned()) == 1


def test_a_place_where_nothing_can_be_made(warned):
    store = Store("/proc/nowhere/cache", LIMIT)
    assert store.get(KEY) is None and store.put(KEY, VALUE) is None and store.put(KEY, VALUE) is None
    assert len(warned()) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_write_permission(store, folder, warned):
    store.put(KEY, VALUE)
    folder.chmod(0o500)
    assert store.put(OTHER, VALUE) is None and store.get(KEY) == VALUE and len(warned()) == 1
    folder.chmod(0o700)


# --- size ------------------------------------------------------------------------------------------------------------

def keys(count):
    return [key(number=str(number)) for number in range(count)]


def aged(path, seconds):
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_it_stays_within_its_limit(store, folder, unsettled):
    for name in keys(400):
        store.put(name, VALUE)
        assert sum(path.stat().st_size for path in folder.iterdir() if len(path.name) == 64) <= LIMIT
    assert store.info().bytes > LIMIT / 2, "and makes use of it"
    assert store.get(keys(400)[-1]) == VALUE


def test_processes_together_stay_within_the_limit(folder):
    """None of them writes enough to know by itself."""
    script = f"module.SETTLED = 0.0\nfor n in range(10): Store({str(folder)!r}, {LIMIT}).put(key(of=sys.argv[1] + sys.argv[2], number=str(n)), bytes(5000))"
    for turn in range(12):
        children(script.replace("sys.argv[2]", repr(f"turn {turn}")), count=3)
    info = Store(folder, LIMIT).info()
    assert 360 * 5000 > LIMIT and LIMIT / 2 < info.bytes <= LIMIT


def test_what_was_used_longest_ago_goes_first(store, unsettled):
    names = keys(1000)
    for age, name in enumerate(names[:100]):
        aged(store.put(name, VALUE), 10_000 - age)
    used = names[:10]
    for number, name in enumerate(used):
        assert (store.get if number % 2 else store.path)(name)
    for name in names[100:205]:
        store.put(name, VALUE)
    left = [name for name in names[:100] if store.get(name)]
    assert set(used) < set(left), "looked up just now"
    rest = [name for name in left if name not in used]
    assert rest and rest == names[100 - len(rest):100], "the younger ones"


def test_what_was_used_within_the_last_minute_is_kept(store, folder):
    names = keys(400)
    for name in names:
        store.put(name, VALUE)
    assert store.info().entries == 400
    for name in names[:200]:
        aged(folder / name, 61)
    for name in keys(450)[400:]:
        store.put(name, VALUE)
    assert store.info().entries == 250 and store.get(names[200]) == VALUE


def test_entries_from_the_future_do_not_stay_for_ever(store, unsettled, folder):
    for name in keys(100):
        aged(store.put(name, VALUE), -10_000)
    for name in keys(400)[100:]:
        store.put(name, VALUE)
    assert store.info().bytes <= LIMIT


def test_a_value_too_large_for_the_limit_is_not_kept(store, warned):
    assert store.put(KEY, bytes(LIMIT // SHARES)) is None
    assert store.put(OTHER, bytes(LIMIT // SHARES - TRAILER.size)) is not None
    assert store.info().entries == 1 and not warned()


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_of_nothing_keeps_nothing(folder, limit):
    store = Store(folder, limit)
    assert store.put(KEY, b"") is None and store.get(KEY) is None and not folder.exists()


def test_putting_does_not_look_at_the_whole_folder(store, monkeypatch, unsettled):
    scans = []
    monkeypatch.setattr(module.os, "scandir", lambda path, scandir=os.scandir: (scans.append(path), scandir(path))[1])
    names, share = keys(200), LIMIT // SHARES // (2 * BLOCK)  # an entry takes two blocks
    for name in names:
        store.put(name, VALUE)
    assert len(scans) == 2 * (200 // share), "entries and unfinished ones, each time that a share was written"


def test_what_crashed_processes_left_is_swept(store, folder, unsettled):
    store.put(KEY, VALUE)
    old, new = folder / (UNFINISHED + "old"), folder / (UNFINISHED + "new")
    for path in (old, new):
        path.write_bytes(VALUE)
    aged(old, 3601)
    for name in keys(40):
        store.put(name, VALUE)
    assert not old.exists() and new.exists()


# --- many at a time --------------------------------------------------------------------------------------------------

def test_processes_that_write_the_same_keys(folder):
    """Each sees a value whole or not at all; a value says which process wrote it."""
    script = f"""
store = Store({str(folder)!r}, 1 << 28)
mine = sys.argv[1].encode() * 50_000
seen = set()
for turn in range(150):
    name = key(number=str(turn % 5))
    store.put(name, mine)
    value = store.get(name)
    assert value is not None and len(value) == 50_000 and len(set(value)) == 1, value and len(value)
    seen.add(value[:1])
print(len(seen))
"""
    counts = [int(output) for output in children(script, count=4)]
    assert max(counts) > 1, "they did meet"
    assert Store(folder, 1 << 28).info().entries == 5


def test_readers_while_others_evict_and_clear(folder):
    script = f"""
module.SETTLED = 0.0
store = Store({str(folder)!r}, 1 << 20)
number = int(sys.argv[1])
for turn in range(300):
    name = key(number=str(turn % 60))
    if number < 2:
        store.put(name, name.encode() * 400)
        if turn % 50 == 49:
            store.clear()
    else:
        assert store.get(name) in (None, name.encode() * 400)
        store.path(name)
        store.info()
"""
    children(script, count=4)
    assert not [name for name in os.listdir(folder) if name.startswith(UNFINISHED)]


def test_a_process_killed_while_it_writes_leaves_nothing_that_is_read(folder):
    script = f"""
def killed(*args): os._exit(0)
module.os.replace = killed
Store({str(folder)!r}, 1 << 20).put(key(name="one"), b"x" * 1000)
"""
    children(script)
    store = Store(folder, LIMIT)
    assert len(os.listdir(folder)) == 1 and store.info().entries == 0 and store.get(KEY) is None


def test_threads_share_a_store(store):
    failures = []

    def work(number):
        for turn in range(100):
            name = key(number=str(turn % 7))
            store.put(name, name.encode())
            if store.get(name) != name.encode():
                failures.append((number, turn))
    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    info = store.info()
    assert not failures and (info.entries, info.hits, info.misses) == (7, 800, 0)


def test_warnings_made_errors_reach_the_program_that_asked_for_it(store, folder):
    folder.mkdir(0o700)
    folder.chmod(0o777)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning):
            store.get(KEY)
    assert store.get(KEY) is None
