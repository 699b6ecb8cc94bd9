"""The commands that are attacked: how they are typed, what they read, what they may write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from lib import settings
from lib.tpugraphs.dataset import TPUGRAPHS

# What can be attacked. (`outputs`: what a command is about to write, where it did so before;
# `disk`: how much of a file can be written; `make`: a variable of make that is code.)
TARGETS = (
    "raw",
    "measurements",
    "program",
    "candidates",
    "cache",
    "fold",
    "scores",
    "record",
    "csv",
    "outputs",
    "disk",
    "flags",
    "make",
)
LAYOUT, TILE = "layout-xla-default", "tile-xla"
DATA, PROGRAMS, OUTPUTS = "data", "programs", "outputs"
TENSORS = "programs-cpu"  # a collection, and the folder of its tables
VENV = "venv"  # whose Python does nothing, for make
FOLDS = 2
# Networks and runs of a tenth of a second.
_COMMON = ("--folds-total", str(FOLDS), "--epochs", "2", "--score-training")
_BATCH = ("--configurations", "4", "--inference-configurations", "8")
FLAGS = {
    "tgraph": (*_COMMON, *_BATCH, "--channels", "16", "--blocks", "1", "--permutations", "2"),
    "tgraph-plus": (*_COMMON, *_BATCH, "--channels", "8", "--members", "2"),
    "gst": (*_COMMON, *_BATCH, "--channels", "8", "--heads", "2", "--segment-nodes", "6"),
    "tile": (*_COMMON, "--channels", "16", "--blocks", "1", "--kernels", "2"),
}
MODELS = tuple(FLAGS)  # one for each way of seeing a graph


@dataclass(frozen=True)
class Command:
    """A command, typed in the folder of the tree.

    Attributes:
        name: such as ``train gst``.
        words: the command line, without the interpreter.
        reads: patterns of the files of each kind that it reads; ``*`` stands for slashes too.
        writes: patterns of the files that it may write, where it succeeds.
        products: those of them that are the same whenever it succeeds on undamaged files.
        says: whether what it says is, too.
        then: names of the commands that go on with what it writes.
    """

    name: str
    words: tuple[str, ...]
    reads: Mapping[str, tuple[str, ...]]
    writes: tuple[str, ...] = ()
    products: tuple[str, ...] = ()
    says: bool = False
    then: tuple[str, ...] = ()

    def may_write(self, path: str) -> bool:
        """Whether a file of the tree is one that the command writes."""
        return matches(path, self.writes)


def matches(path: str, patterns: tuple[str, ...]) -> bool:
    """Whether a path fits one of some patterns."""
    return any(fnmatchcase(path, pattern) for pattern in patterns)


def all_commands() -> dict[str, Command]:
    """Every command by its name."""
    every = [*_submissions(), *_looks(), _preprocess_programs()]
    every.append(Command("make", ("env", "make", "--version"), {}))  # else by `flags.in_make`
    for at in map(place_of, MODELS):
        every += [_preprocess(at), _train(at), _infer(at), _report(at)]
        every += [_ensemble(at, "ensemble", FOLDS), _ensemble(at, "ensemble-of-one", 1)]
        if at.collection == LAYOUT:
            every.append(_rank(at))
    return {one.name: one for one in every}


@dataclass(frozen=True)
class Place:
    """Where a model's files are, in the tree, and the flags that every stage of it is given."""

    model: str
    collection: str
    raw: str
    cache: str
    results: str
    flags: tuple[str, ...]

    @property
    def records(self) -> tuple[str, ...]:
        """What stage 1 leaves of its run."""
        return (f"{OUTPUTS}/{self.collection}/stages/preprocess*.json",)

    @property
    def seen(self) -> dict[str, tuple[str, ...]]:
        """What reports are made of, but for the cache."""
        return {
            "scores": (f"{self.results}/scores/*",),
            "measurements": (f"{DATA}/measurements.parquet",),
            "record": (f"{self.results}/*.json", *self.records),
            "fold": (f"{self.results}/fold_*/history.parquet",),
        }

    def lock(self, artifact: str) -> str:
        """What a stage that writes an artifact holds a lock on."""
        name = artifact.removeprefix(f"{OUTPUTS}/").replace("/", ".")
        return f"{OUTPUTS}/.make/{name}.lock"


def place_of(model: str) -> Place:
    """Where the files of one of ``MODELS`` are."""
    collection = TILE if model == "tile" else LAYOUT
    chosen = settings.settings_for(collection, TPUGRAPHS, {"model": model})
    given = ("--collection", collection, "--data", DATA, "--outputs", OUTPUTS, "--model", model)
    return Place(
        model,
        collection,
        f"{DATA}/npz/{chosen.folder}",
        f"{OUTPUTS}/{chosen.cache}",
        f"{OUTPUTS}/{chosen.results}",
        (*given, *FLAGS[model]),
    )


def _preprocess(at: Place) -> Command:
    return Command(
        f"preprocess {at.model}",
        ("01_preprocess.py", *at.flags, "--jobs", "1"),
        {"raw": (f"{at.raw}/*",), "cache": (f"{at.cache}/*",), "record": at.records},
        (at.cache, f"{at.cache}/*", *at.records, at.lock(at.cache)),
        (f"{at.cache}/*",),
        then=tuple(f"{stage} {at.model}" for stage in ("train", "infer", "ensemble-of-one")),
    )


def _preprocess_programs() -> Command:
    """Stage 1 on tables of tensor programs, which it checks for all stages."""
    cache = f"{OUTPUTS}/{TENSORS}/cache"
    given = ("--collection", TENSORS, "--data", TENSORS, "--outputs", OUTPUTS, "--jobs", "1")
    return Command(
        "preprocess programs",
        ("01_preprocess.py", *given),
        {"raw": (f"{TENSORS}/*",)},
        (f"{OUTPUTS}/{TENSORS}/*", f"{OUTPUTS}/{TENSORS}", f"{OUTPUTS}/.make/{TENSORS}.cache.lock"),
        (f"{cache}/*",),
    )


def _train(at: Place) -> Command:
    fold = f"{at.results}/fold_0"
    results = tuple(f"{fold}/{name}" for name in ("last.safetensors", "model.safetensors"))
    results += (f"{fold}/metrics.json",)
    beside = ("history.parquet", "state.safetensors", "history.bin", "history.log")
    return Command(
        f"train {at.model}",
        ("02_train.py", *at.flags, "--fold", "0"),
        {"cache": (f"{at.cache}/*",), "fold": (f"{fold}/*",)},
        (
            *results,
            *(f"{fold}/{name}" for name in beside),
            f"{at.results}/stages/train_0.json",
            at.lock(fold),
        ),
        results,
    )


def _infer(at: Place) -> Command:
    scores = f"{at.results}/scores/fold_0.parquet"
    weights = f"{at.results}/fold_0/last.safetensors"
    return Command(
        f"infer {at.model}",
        ("03_infer.py", *at.flags, "--fold", "0"),
        {"cache": (f"{at.cache}/*",), "fold": (weights,)},
        (scores, f"{at.results}/stages/infer_0.json", at.lock(scores)),
        (scores,),
    )


def _ensemble(at: Place, name: str, folds: int) -> Command:
    submission, metrics = f"{at.results}/submission.csv", f"{at.results}/metrics.json"
    beside = (f"{at.results}/report.html", f"{at.results}/stages/ensemble.json")
    return Command(
        f"{name} {at.model}",
        ("04_ensemble.py", *at.flags, "--folds", str(folds)),
        {"cache": (f"{at.cache}/*",), **at.seen},
        (submission, metrics, *beside, at.lock(submission)),
        (submission, metrics),
    )


def _report(at: Place) -> Command:
    tables = (f"{at.cache}/graphs.parquet", f"{at.cache}/manifest.json")
    return Command(
        f"report {at.model}",
        ("-m", "lib.report", *at.flags),
        {"cache": tables, **at.seen},
        (f"{at.results}/report.html",),
    )


def _rank(at: Place) -> Command:
    """Ranking the configurations of one program: its own, those of a file, or drawn ones."""
    program, candidates = {
        "tgraph": ("program.npz", "candidates.npz"),
        "tgraph-plus": ("module.pb", "candidates.jsonl"),
        "gst": ("tuning.pb", ""),
    }[at.model]
    words = ("-m", "lib.scoring.rank", "--collection", at.collection, "--outputs", OUTPUTS)
    words += ("--model", at.model, f"{PROGRAMS}/{program}", "--json")
    reads = {"program": (f"{PROGRAMS}/{program}",)}
    words += ("--candidates", f"{PROGRAMS}/{candidates}" if candidates else "search:20")
    if candidates:
        reads |= {"candidates": (f"{PROGRAMS}/{candidates}",)}
    weights = f"{at.results}/fold_*/last.safetensors"
    return Command(f"rank {at.model}", words, {**reads, "fold": (weights,)}, says=True)


def _submissions() -> list[Command]:
    """Commands about all collections."""
    given = ("--outputs", OUTPUTS, "--data", DATA)
    raw = (f"{DATA}/npz/*/test/*",)
    own = (f"{OUTPUTS}/{LAYOUT}/submission.csv", f"{OUTPUTS}/{TILE}/submission.csv")
    merged = (f"{OUTPUTS}/submission.csv",)
    tables = (f"{OUTPUTS}/*/graphs.parquet",)
    sample = ("--sample", "sample.csv")
    apart = (f"{DATA}/measurements.parquet", f"{DATA}/programs.parquet")
    return [
        Command(
            "merge",
            ("-m", "lib.scoring.merge", *given, "--partial"),
            {"csv": own, "cache": tables, "raw": raw},
            merged,
            merged,
        ),
        Command(
            "merge by sample",
            ("-m", "lib.scoring.merge", *given, "--partial", *sample),
            {"csv": (*own, "sample.csv"), "cache": tables},
            merged,
            merged,
        ),
        Command(
            "score",
            ("-m", "lib.scoring.score", *given),
            {"csv": merged, "measurements": apart, "raw": raw},
            (f"{OUTPUTS}/score.parquet",),
            (f"{OUTPUTS}/score.parquet",),
        ),
    ]


def _looks() -> list[Command]:
    """Commands that only look."""
    first, second = f"{OUTPUTS}/{LAYOUT}", f"{OUTPUTS}/{LAYOUT}@gst"
    cache = f"{OUTPUTS}/{LAYOUT}/cache"
    records = {"record": (f"{first}/*.json", f"{second}/*.json")}
    folds = {"fold": (f"{first}/fold_*/*", f"{second}/fold_*/*")}
    files = {**records, **folds, "scores": (f"{first}/scores/*",)}
    reads = {**files, "cache": (f"{cache}/graphs.parquet", f"{cache}/manifest.json")}
    return [
        Command("compare", ("-m", "lib.report.compare", first, second), reads),
        Command("status", ("-m", "lib.report.status", *place_of("gst").flags), reads),
    ]
