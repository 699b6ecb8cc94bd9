"""What the numbers say, in sentences; every one of them is a comparison with its error."""

from __future__ import annotations

from lib.ranking.metrics import GLUE, Metric
from lib.report.experiment import Experiment
from lib.report.statistics import Mean, Paired, mean, p_text, paired

SECTION_WORDS = {"test": "new programs", "validation": "unseen programs", "training": "known ones"}


def with_error(metric: Metric, value: Mean) -> str:
    """``0.232 ± 0.061``: a mean and its standard error, which one value does not have."""
    if value.error != value.error:
        return metric.text(value.value)
    bare = metric.text(value.value).removesuffix(f"{GLUE}%")
    return f"{bare}{GLUE}±{GLUE}{metric.text(value.error)}"


def against_baseline(experiment: Experiment, section: str) -> Paired | None:
    """The network's number minus the baseline's, graph by graph; ``None`` without a baseline."""
    kind = experiment.kind
    network, baseline = (experiment.values(section, k) for k in (kind.main.key, kind.baseline.key))
    names = sorted(set(network) & set(baseline))
    if not names:
        return None
    first, second = [baseline[n] for n in names], [network[n] for n in names]
    return paired(first, second, kind.main.higher_is_better)


def verdict(experiment: Experiment) -> str:
    """The headline: a sentence about the section that counts most."""
    section = experiment.headline
    if not section:
        return "Nothing was measured against known runtimes"
    compared = against_baseline(experiment, section)
    programs = SECTION_WORDS[section]
    if compared is None:
        average = experiment.mean(section, experiment.kind.main.key)
        main = experiment.kind.main
        return f"{main.name} of {with_error(main, average)} on {average.count} {programs}"
    kind = experiment.kind
    gain = compared.difference.value * (1 if kind.main.higher_is_better else -1)
    if not compared.sure:
        return f"On {programs}, the network and the {kind.baseline.name} cannot be told apart"
    word = "better" if gain > 0 else "worse"
    size = kind.main.text(abs(compared.difference.value))
    verb = "ranks" if kind.ordered else "predicts"
    return f"On {programs}, the network {verb} {word} than the {kind.baseline.name}, by {size}"


def improvement(experiment: Experiment, section: str) -> str:
    """The improvement over the baseline, how sure it is, and how far it is to the ceiling."""
    compared, kind = against_baseline(experiment, section), experiment.kind
    if compared is None:
        return ""
    main, difference = kind.main, compared.difference
    means = {
        key: experiment.mean(section, key)
        for key in (main.key, kind.baseline.key, kind.ceiling.key)
    }
    sentences = [
        f"Over {difference.count:,} {section} {kind.item}s, the network's mean {main.name} is "
        f"{with_error(main, means[main.key])}, the {kind.baseline.name}'s "
        f"{with_error(main, means[kind.baseline.key])}: a difference of "
        f"{main.text(difference.value, signed=True)}"
    ]
    if difference.count > 1:
        sentences[0] += (
            f" (95 % confidence interval {main.text(compared.low, True)} to "
            f"{main.text(compared.high, True)}; permutation test {p_text(compared.permutation)})"
        )
    count = f"The network is better on {compared.wins:,} {kind.item}s, worse on {compared.losses}"
    sentences.append(count + (f", equal on {compared.ties}" if compared.ties else ""))
    way = _way_to_ceiling(means, main.key, kind.baseline.key, kind.ceiling.key)
    if way is not None and kind.ceiling.name:
        says = f"That is {way:.0%} of the way from the {kind.baseline.name} to the ceiling"
        if way < 0:
            says = f"The {kind.baseline.name} is nearer to the {kind.ceiling.name}"
        sentences.append(says.replace("%", f"{GLUE}%"))
    return ". ".join(sentences) + "."


def learning(experiment: Experiment) -> str:
    """How the folds ended, and whether later epochs still helped."""
    main, folds = experiment.kind.main, experiment.folds
    last = {k: run["last"][main.key] for k, run in folds.items() if main.key in run.get("last", {})}
    best = {k: run["best"] for k, run in folds.items() if main.key in run.get("best", {})}
    if not last or not best:
        return ""
    ends, tops = mean(list(last.values())), mean([epoch[main.key] for epoch in best.values()])
    epochs = mean([epoch["epoch"] for epoch in best.values()])
    return (
        f"Validation {main.name} ends at {with_error(main, ends)} (mean and standard error over "
        f"{ends.count} folds). The best epochs of the folds, {epochs.value:.0f} on average, had "
        f"{with_error(main, tops)}; picking them by validation flatters that number."
    )


def _way_to_ceiling(means: dict[str, Mean], main: str, baseline: str, ceiling: str) -> float | None:
    if means[ceiling].count != means[main].count:
        return None
    room = means[ceiling].value - means[baseline].value
    return (means[main].value - means[baseline].value) / room if abs(room) > 1e-3 else None
