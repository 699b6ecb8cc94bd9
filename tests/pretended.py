"""A stand-in for the stages: at once, it leaves what make and the stages tell results by.

    python3 -SE tests/pretended.py 02_train.py --collection layout-xla-default --fold 0 ...

takes a stage's flags, and says that it has worked, or that its results are up to date.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
STAND_IN = f'#!/bin/sh\nexec {sys.executable} -SEB "{REPOSITORY}/tests/pretended.py" "$@"\n'


def pretend(run, stage: str, fold: int | None) -> None:
    """Leave results of a stage that hold nothing but their identity."""
    from lib.files.artifacts import fingerprint_value, write_json
    from lib.settings import described

    made_from = run.made_from(stage, fold)
    record = {"identity": fingerprint_value(made_from), "made_from": made_from}
    files = run.files(stage, fold)
    for path in files:
        path.parent.mkdir(parents=True, exist_ok=True)
        content = b"identity\x18\x40" + record["identity"].encode()
        head = len(content).to_bytes(8, "little") if path.suffix == ".safetensors" else b""
        path.write_bytes(head + content)
    if stage == "preprocess":
        contents = run.contents({})
        record |= {"raw": run.raw_files, "contents": contents}
        record["data"] = fingerprint_value(contents)
        write_json(files[0], {"fingerprint": record["data"]})
    metadata = {**described(run.settings), "fold": fold, **run.data_of_training}
    for path in files:
        if path.name == "metrics.json":
            own = {**metadata, "identity": record["identity"]}
            write_json(path, {**own, "validation": {}, "settings": own})
    keep(run, stage, fold, record)


def keep(run, stage: str, fold: int | None, record: dict) -> None:
    """Write a stage's record, as it is with the results that are there."""
    from lib.files.artifacts import write_json
    from lib.runs.identity import part_of, record_path, state_of

    if stage == "preprocess":
        record = {**record, "raw": run.raw_files}
    else:
        record = {**record, "files": state_of(run.files(stage, fold), stage)}
    write_json(record_path(run.outputs, part_of(stage, fold), run.settings), record)


def main() -> None:
    """Be the stage."""
    sys.path.insert(0, str(Path.cwd()))  # the repository, or a copy
    from lib.files.errors import one_line_errors
    from lib.runs.code import SCRIPTS
    from lib.runs.make import all_flags, run_of

    script = sys.argv.pop(1)
    stage = next(name for name, own in SCRIPTS.items() if own == script)
    parser = all_flags("")
    for flag in ("--fold", "--jobs"):
        parser.add_argument(flag, type=int)
    with one_line_errors():
        arguments = parser.parse_args()
        run, fold = run_of(arguments), arguments.fold
        if not run.up_to_date(stage, fold):
            pretend(run, stage, fold)
            print(f"worked: {script}", flush=True)
            return
        for file in () if stage == "preprocess" else run.files(stage, fold):
            os.utime(file)
        keep(run, stage, fold, run.record(stage, fold))
        print(f"{stage}: up to date", flush=True)


if __name__ == "__main__":
    main()
