"""Training of contenders on further splits than the first: the other ones, and spare ones in time that is left."""

from collections.abc import Sequence

from janossy.estimators.averages import MAX_AVERAGED, counts_in_average
from janossy.estimators.contenders import Contender
from janossy.estimators.interrupts import now
from janossy.estimators.trainer import Trainer

FOR_SPARE = 0.8
"""The part of the time left that training on spare splits may take, by the time that the first split took."""


def contenders_in_average(trainer: Trainer) -> dict[Contender, int]:
    """Returns the contenders of the best average on the first split, with their counts."""
    counts = counts_in_average(trainer.trained, 1, trainer.losses)
    return {contender: count for contender, count in counts.items() if count}


def train_next_best(trainer: Trainer) -> None:
    """Trains contenders on the other splits in time that is left: the best on the first split, up to six.

    A few sets, which one split holds out, may all be easy. They then tell nothing about candidates.
    """
    best = sorted(trainer.trained, key=lambda each: float(trainer.losses(each.predicted(1)).mean()))
    for contender in best[:MAX_AVERAGED]:
        missing = len(trainer.first_splits) - len(contender.runs)
        if missing and not contender.note and missing * contender.seconds <= trainer.deadline - now():
            train_on_other_splits(trainer, [contender])


def train_on_other_splits(trainer: Trainer, contenders: Sequence[Contender]) -> None:
    """Trains contenders on all splits but spare ones, split by split, where there is time."""
    num_splits = len(trainer.first_splits)
    for contender in contenders:
        is_short = contender.candidate.classical and len(contender.runs) < num_splits
        has_time = contender.seconds * num_splits <= trainer.deadline - now()
        if is_short and has_time and not trainer.has_ended:
            # all splits share one strength, so all are fitted again
            trainer.fit(contender, trainer.deadline, num_splits)
    networks = [contender for contender in contenders if not contender.candidate.classical]
    trained_before = [len(contender.runs) for contender in networks]
    train_networks(trainer, networks, num_splits)
    for contender, num in zip(networks, trained_before, strict=True):
        if len(contender.runs) > num:
            trainer.judge_anew(contender)


def train_networks(trainer: Trainer, networks: Sequence[Contender], num_splits: int) -> None:
    """Trains networks on the first splits, split by split, where there is time for a whole training."""
    for split in range(1, num_splits):
        for contender in networks:
            has_time = contender.seconds <= trainer.deadline - now()
            if len(contender.runs) == split and has_time and not trainer.has_ended:
                trainer.train(contender, split, contender.planned, trainer.deadline)


def train_on_spare_splits(trainer: Trainer) -> None:
    """Trains the contenders of the average on spare splits, on as many as there is time for.

    If there is time for all splits, the next best contenders follow. All of them end with equally many splits, so that
    more sets choose and calibrate the average.
    """
    used = list(contenders_in_average(trainer))
    others = [each for each in trainer.trained if each not in used and not each.note]
    for contender in sorted(others, key=lambda each: each.losses[-1])[: MAX_AVERAGED - len(used)]:
        if _num_affordable(trainer, [*used, contender]) == len(trainer.splits):
            used.append(contender)
    networks = [contender for contender in used if not contender.candidate.classical]
    num = _num_affordable(trainer, used)
    train_networks(trainer, networks, num)
    used = [contender for contender in used if not contender.note]  # a note tells that training diverged
    num = min([num, *(len(contender.runs) for contender in networks if not contender.note)])
    for contender in used:
        if contender.candidate.classical and num > 1 and not trainer.has_ended:
            trainer.fit(contender, trainer.deadline, num)
    num = min((len(contender.runs) for contender in used), default=1)
    for contender in used:
        del contender.runs[num:]
        if num > 1:
            trainer.judge_anew(contender)


def _num_affordable(trainer: Trainer, contenders: Sequence[Contender]) -> int:
    """Returns the number of splits on which there is time to train contenders that have been trained on one."""
    left = FOR_SPARE * (trainer.deadline - now())
    again = sum(contender.seconds for contender in contenders if contender.candidate.classical)
    each = sum(contender.seconds for contender in contenders)
    return max(num for num in range(1, len(trainer.splits) + 1) if num == 1 or again + (num - 1) * each <= left)
