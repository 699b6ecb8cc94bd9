"""Mistakes of a user: one line on standard error that says what is wrong, exit code 2."""

from __future__ import annotations

import errno
import os
import resource
import runpy
import shutil
import subprocess
import sys

import polars as pl
import pytest

from lib.files import tensor_file
from lib.files.artifacts import read_json
from lib.files.errors import UserError, one_line_errors
from lib.files.locks import in_use, is_in_use
from lib.files.parquet import write_parquet
from lib.runs.identity import Run
from lib.settings import parser, resolve
from lib.training.fold import Fold
from tests.builders import COLLECTION, TGRAPH
from tests.stages import REPOSITORY, TINY_FLAGS, environment
from tests.synthetic import write_collection


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with ``data`` and ``outputs`` of a run of all stages with one fold."""
    root = tmp_path_factory.mktemp("finished")
    write_collection(root / "data", COLLECTION, train=3, valid=1, test=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WANDB_MODE", "disabled")
        for script in ("01_preprocess.py --jobs 1", "02_train.py --fold 0"):
            main(patch, root, *script.split())
        main(patch, root, "03_infer.py", "--fold", "0")
    return root


def main(patch, root, script, *flags):
    """Run a stage in this process, as ``python script`` would."""
    folders = ("--outputs", str(root / "outputs"), "--data", str(root / "data"))
    line = [script, "--collection", COLLECTION, *folders, *TINY_FLAGS, "--epochs", "1", *flags]
    patch.setattr(sys, "argv", line)
    runpy.run_path(str(REPOSITORY / script), run_name="__main__")


@pytest.fixture
def root(finished, tmp_path):
    """A copy of ``finished`` to spoil."""
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture
def error_of(root, monkeypatch, capfd):
    """A function that runs a stage, expects it to fail in one line, and returns that line.

    The stage works, although its results may be there.
    """
    monkeypatch.setenv("WANDB_MODE", "disabled")
    monkeypatch.setattr(Run, "up_to_date", lambda *_: False)

    def error_of(line: str) -> str:
        capfd.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main(monkeypatch, root, *line.split())
        written = capfd.readouterr().err
        assert stopped.value.code == 2
        assert written.startswith("error: ")
        assert written.count("\n") == 1, written
        return written

    return error_of


@pytest.mark.parametrize("line", ["02_train.py --fold 0", "03_infer.py --fold 0", "04_ensemble.py"])
def test_no_cache(error_of, root, line):
    shutil.rmtree(root / "outputs" / COLLECTION / "cache")
    assert "run 01_preprocess.py" in error_of(line)


@pytest.mark.parametrize("script", ["02_train.py --fold 0", "04_ensemble.py"])
def test_more_folds_than_there_are_are_refused_before_the_first_is_trained(error_of, script):
    found = error_of(f"{script} --folds 3")
    assert "--folds 3 (FOLDS of make): must be from 1 to --folds-total, 2" in found


def test_weights_of_another_cache(error_of, root, monkeypatch):
    main(monkeypatch, root, "01_preprocess.py", "--jobs", "1", "--hops", "2")
    assert "train again" in error_of("03_infer.py --fold 0 --hops 2")


def test_weights_of_another_fold(error_of, root):
    path = root / "outputs" / TGRAPH / "fold_0" / "last.safetensors"
    tensors, about = tensor_file.load(path)
    tensor_file.save(path, tensors, {**about, "fold": 1})
    said = error_of("03_infer.py --fold 0")
    assert f"{path}: fold: found 1, expected 0; train again" in said


@pytest.mark.parametrize("name", ["history.parquet", "model.safetensors", "last.safetensors"])
def test_a_damaged_file_of_a_fold_or_another_trainings(error_of, root, name):
    """Also one that stages 3 and 4 do not read, but people do."""
    path = root / "outputs" / TGRAPH / "fold_0" / name
    if name == "history.parquet":
        write_parquet(pl.read_parquet(path), path, {"identity": "0" * 64})
    else:
        path.write_bytes(bytes(path.stat().st_size))
    said = error_of("04_ensemble.py")
    assert f"{path}: identity: found none, or that of another training, expected that of" in said
    found = resolve(
        parser("").parse_args([*TINY_FLAGS, "--epochs=1", f"--collection={COLLECTION}"])
    )
    assert Run(root / "outputs", found.settings, root / "data").stated("train", 0) == ""


def test_no_cache_is_replaced_that_a_training_learns_from(root, monkeypatch, capfd):
    cache = root / "outputs" / COLLECTION / "cache"
    used = []
    real = Fold.load.__func__
    load = lambda *given: [used.append(is_in_use(cache)), real(*given)][1]  # noqa: E731
    monkeypatch.setattr(Fold, "load", classmethod(load))
    main(monkeypatch, root, "02_train.py", "--fold", "1")
    assert used == [True] and not is_in_use(cache)
    before = contents(cache)
    write_collection(root / "data", COLLECTION, train=4, valid=1, test=1)
    with in_use(cache), pytest.raises(SystemExit):
        main(monkeypatch, root, "01_preprocess.py", "--jobs", "1")
    assert f"error: {cache}: another run learns from it" in capfd.readouterr().err
    assert contents(cache) == before
    main(monkeypatch, root, "01_preprocess.py", "--jobs", "1")
    assert contents(cache) != before


def test_a_fold_without_scores_is_not_left_out(error_of, root):
    """``--folds 2`` means folds 0 and 1: it blended one of them, and said nothing."""
    folder = root / "outputs" / TGRAPH / "scores"
    (folder / "fold_0.parquet").rename(folder / "fold_1.parquet")
    for flags in ("--folds 2", "--folds 1"):
        found = error_of(f"04_ensemble.py {flags}")
        assert f"{folder / 'fold_0.parquet'}: no such file; run 03_infer.py --fold 0" in found
    assert "must be from 1 to --folds-total, 2" in error_of("04_ensemble.py --folds 0")


def test_scores_of_other_graphs(error_of, root):
    path = root / "outputs" / TGRAPH / "scores" / "fold_0.parquet"
    write_parquet(pl.read_parquet(path).filter(pl.col("graph") != "valid_0.v1.0"), path)
    found = error_of("04_ensemble.py")
    assert "fold_0.parquet: valid: found no valid_0.v1.0" in found or "train: found" in found


@pytest.mark.parametrize("text", ["{", '{"data": 3}'])
def test_a_folds_numbers_of_another_kind(error_of, root, text):
    path = root / "outputs" / TGRAPH / "fold_0" / "metrics.json"
    path.write_text(text)
    assert f"{path}: " in error_of("04_ensemble.py")


def test_a_bad_record_does_not_fail_stage_4(root, monkeypatch, capfd):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    path = root / "outputs" / TGRAPH / "stages" / "train_0.json"
    path.write_text('{"stage": "train"}')
    capfd.readouterr()
    main(monkeypatch, root, "04_ensemble.py")
    warned = capfd.readouterr().err
    assert warned.startswith(f"warning: left out: {path}: ")
    assert warned.count("\n") == 1
    assert (root / "outputs" / TGRAPH / "report.html").exists()


LARGEST = 300  # bytes of a file on a disk that counts as full: enough for an error's line


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


STAGES = ("01_preprocess.py --jobs 1", "02_train.py --fold 0", "03_infer.py --fold 0")


@pytest.mark.parametrize(
    ("line", "result"),
    [
        (STAGES[0], f"{COLLECTION}/cache"),
        (STAGES[1], f"{TGRAPH}/fold_0/model.safetensors"),
        (STAGES[2], f"{TGRAPH}/scores/fold_0.parquet"),
        ("04_ensemble.py --folds 1", f"{TGRAPH}/submission.csv"),
    ],
)
class TestWhatCannotBeWritten:
    """Each stage names its result, and nothing that was there is lost."""

    def test_something_else_has_its_name(self, error_of, root, line, result):
        path = root / "outputs" / result
        if path.is_dir():
            shutil.rmtree(path)
            path.write_text("mine")
        else:
            path.unlink(missing_ok=True)
            (path / "mine").mkdir(parents=True)
        assert f"{result}: " in error_of(line)
        assert path.is_file() or (path / "mine").exists()
        assert not list((root / "outputs").rglob(".partial*"))

    def test_a_full_disk(self, error_of, root, line, result):
        """A limit on the size of files fails in the middle of a write, as a full disk does."""
        before = contents(root / "outputs")
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST, limits[1]))
        try:
            found = error_of(line)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        # A small submission could be written; what is large beside it could not.
        first = result.replace("submission.csv", "metrics.json")
        assert found.endswith(f"{first}: File too large\n")
        after = contents(root / "outputs")
        assert before == {path: content for path, content in after.items() if path in before}
        assert after.keys() == before.keys()


@pytest.mark.parametrize("spoiled", ["metrics.json", "stages", "history.parquet"])
def test_results_of_stage_4_appear_together(error_of, root, monkeypatch, capfd, spoiled):
    """Whatever one of them fails for, the others are those of before."""
    main(monkeypatch, root, "04_ensemble.py", "--folds", "1")
    capfd.readouterr()
    results = root / "outputs" / TGRAPH
    path = results / ("fold_0/history.parquet" if spoiled == "history.parquet" else spoiled)
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
        (path / "mine").mkdir(parents=True)
    if spoiled == "stages":
        path.write_text("mine")
    before = contents(results)
    assert f"{path}: " in error_of("04_ensemble.py --folds 1 --blending standardized")
    assert contents(results) == before


@pytest.mark.parametrize(
    "line", [STAGES[1], f"{STAGES[2]} --permutations 3", "04_ensemble.py --folds 1"]
)
def test_results_and_the_record_of_their_run_appear_together(error_of, root, monkeypatch, line):
    """The disk is full when the record is written, the last of a stage's files."""

    def full(path, value):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    before = contents(root / "outputs")
    monkeypatch.setattr("lib.runs.stage.write_json", full)
    assert error_of(line).endswith(".json: No space left on device\n")
    assert contents(root / "outputs") == before


def test_a_place_that_is_taken_is_told_before_training(error_of, root, monkeypatch):
    path = root / "outputs" / TGRAPH / "fold_0" / "history.parquet"
    path.unlink()
    path.mkdir()
    monkeypatch.setattr("lib.training.fold.load_fold", lambda *_: pytest.fail("trained"))
    assert f"{path}: Is a directory" in error_of(STAGES[1])


def test_a_full_standard_output():
    program = (
        "from lib.files.errors import one_line_errors\nwith one_line_errors(): print('result')"
    )
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=REPOSITORY,
            env=environment() | {"PYTHONUNBUFFERED": ""},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 2
    assert done.stderr == "error: standard output: No space left on device\n"


@pytest.mark.parametrize("encoding", ["ascii", "iso8859-15"])
def test_signs_that_an_encoding_lacks_are_written_out(encoding):
    done = subprocess.run(
        [sys.executable, "-c", "import lib\nlib.begin_program()\nprint('\u03c4 0.5')"],
        cwd=REPOSITORY,
        env=environment() | {"PYTHONIOENCODING": encoding},
        capture_output=True,
    )
    assert done.stdout == b"\\u03c4 0.5\n", done.stderr


def test_a_file_that_is_not_there_is_not_called_found(tmp_path):
    with pytest.raises(UserError, match=r"a\.json: No such file or directory; expected a JSON"):
        read_json(tmp_path / "a.json")


# Processes that those who started them tell about: the collector's, and one that waits for a task.
TOLD_OF = ("measure.py", "hand.py")


def test_every_command_ends_in_one_line():
    for path in [*REPOSITORY.glob("0*.py"), *(REPOSITORY / "lib").rglob("*.py")]:
        text = path.read_text()
        command = "def main(" in text and "__main__" in text
        if command and path.name not in TOLD_OF:
            assert "one_line_errors()" in text or "import Stage, run\n" in text, path


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(28, "No space left on device", "a.bin"), "a.bin: No space left on device"),
        (OSError(18, "Cross-device link", "a", None, "b"), "a: b: Cross-device link"),
        (OSError("read\nfailed"), "read failed"),
        (MemoryError(), "out of memory"),
        (MemoryError("Unable to allocate 9 TiB"), "out of memory: Unable to allocate 9 TiB"),
    ],
)
def test_what_the_system_refuses_is_one_line(capsys, error, line):
    with pytest.raises(SystemExit) as stopped, one_line_errors():
        raise error
    assert stopped.value.code == 2
    assert capsys.readouterr().err == f"error: {line}\n"


def test_what_terminals_act_on_is_shown_instead(capsys):
    with pytest.raises(SystemExit), one_line_errors():
        raise UserError("a\x1b[31mb\x00c\u202ed\x7f\u2028é\x85\udcffe")
    assert capsys.readouterr().err == "error: a\\x1b[31mb\\x00c\\u202ed\\x7f é \\udcffe\n"


def test_an_interruption_is_one_line(capsys):
    with pytest.raises(SystemExit) as stopped, one_line_errors():
        raise KeyboardInterrupt
    assert stopped.value.code == 130
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("kind", [AttributeError, KeyError, ValueError])
def test_a_defect_keeps_its_traceback(kind):
    with pytest.raises(kind), one_line_errors():
        raise kind
