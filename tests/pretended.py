"""A stand-in for the stages: at once, it leaves what make and the stages tell results by.

    python3 -SE tests/pretended.py 02_train.py --collection layout-xla-default --fold 0 ...

takes a stage's flags, ends with "as it was" as the stage would, and else says that it has worked.
"""

from __future__ import annotations

import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
STAND_IN = f'#!/bin/sh\nexec {sys.executable} -SEB "{REPOSITORY}/tests/pretended.py" "$@"\n'


def pretend(making, stage: str, fold: int | None) -> None:
    """Leave results of a stage that hold nothing but their identity."""
    from lib.files.artifacts import fingerprint_value, write_json
    from lib.files.sealed import sealed
    from lib.runs.identity import part_of, record_path
    from lib.settings import described

    made_from = making.made_from(stage, fold)
    record = {"identity": fingerprint_value(made_from), "made_from": made_from}
    files = making.files(stage, fold)
    for path in files:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"identity\x18\x40" + record["identity"].encode())
    if stage == "preprocess":
        contents = making.contents({})
        record |= {"raw": making.raw_files, "contents": contents}
        record["data"] = fingerprint_value(contents)
        write_json(files[0], {"fingerprint": record["data"]})
    about = {**described(making.settings), "fold": fold, **making.data_of_training}
    for path in files:
        if path.name == "metrics.json":
            own = {**about, "identity": record["identity"]}
            write_json(path, sealed({**own, "validation": {}, "settings": own}))
    write_json(record_path(making.outputs, part_of(stage, fold), making.settings), record)


def main() -> None:
    """Be the stage."""
    sys.path.insert(0, str(Path.cwd()))  # the repository, or a copy
    from lib.files.errors import one_line_errors
    from lib.runs import asked
    from lib.runs.code import SCRIPTS

    script = sys.argv.pop(1)
    stage = next(name for name, own in SCRIPTS.items() if own == script)
    with one_line_errors():
        args, resolved = asked.parse_or_end(stage, "")
        making = asked.making_of(args, resolved.settings)
        pretend(making, stage, getattr(args, "fold", None))
        print(f"worked: {script}", flush=True)


if __name__ == "__main__":
    main()
