# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Trials of Optuna's samplers, asked for many at once.

A process samples in memory, writes its trials to a file when they are done, and takes in those of
others from there.
"""

from __future__ import annotations

import math
import secrets
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from sysid_ros.errors import ResultError
from sysid_ros.servos.bench.study import import_optuna, storage_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sysid_ros.servos.bench.study import Method, StudyFile
    from sysid_ros.servos.laws.coefficients import Coefficient

    Array = NDArray[np.float64]

#: CMA-ES asks for so many times its usual population, 4 + 3 ln n (Hansen): simulating twice as many
#: at once takes little longer, and a small population often ends in a valley beside the best.
_MORE = 2
#: Optuna's usual population of NSGA-II.
_NSGAII_POPULATION = 50
_RANDOM_BATCH = 64
#: From this version on, Optuna's CMA-ES does not begin anew where it has converged.
_WITHOUT_RESTARTS = (4, 4)
_PROCESS = 'process'


class Trials:
    """What one process asks a sampler for and tells it."""

    def __init__(
        self,
        space: Mapping[str, Coefficient],
        method: Method,
        *,
        seed: int,
        process: int = 0,
        processes: int = 1,
        file: StudyFile | None = None,
    ) -> None:
        """Begin, or go on where the file is.

        Args:
            space: What is sampled, between which bounds.
            method: The sampler.
            seed: Of the sampler, with the number of the process and of trials that there are.
            process: Its number, counted from 0.
            processes: How many sample together.
            file: Where trials are shared; in memory only unless given.
        """
        self._optuna = optuna = import_optuna(method)
        self._names = tuple(space)
        self._distributions = {
            name: optuna.distributions.FloatDistribution(low, high)
            for name, (_, low, high) in space.items()
        }
        self._token = f'{process}-{secrets.token_hex(4)}'
        self._seen: set[int] = set()
        self._file = None
        if file is not None:
            self._file = optuna.load_study(
                study_name=file.name, storage=storage_of(optuna, file.path)
            )
        known = [] if self._file is None else self._others()
        number = np.random.SeedSequence([seed, process, len(known)]).generate_state(1)[0]
        self.batch = _batch(method, len(space))
        sampler = _sampler(optuna, method, int(number), self.batch * processes)
        self._study = optuna.create_study(sampler=sampler)
        self._study.add_trials(known)
        self._count = len(known)

    @property
    def count(self) -> int:
        """How many trials there are, those of others too."""
        return self._count

    def best(self) -> tuple[dict[str, float], float]:
        """Return the values of the best trial and what it led to."""
        trial = self._study.best_trial
        return {name: float(trial.params[name]) for name in self._names}, float(trial.value)

    def take(self) -> None:
        """Take in what others have tried since."""
        if self._file is not None:
            found = self._others()
            self._study.add_trials(found)
            self._count += len(found)

    def ask(self, count: int) -> tuple[list[Any], Array]:
        """Return so many trials, and their (m, p) values."""
        asked = [self._study.ask(self._distributions) for _ in range(count)]
        return asked, np.array([[trial.params[name] for name in self._names] for trial in asked])

    def tell(self, asked: Sequence[Any], errors: Array) -> None:
        """Say what (m,) trials led to, and write them to the file."""
        # A sampler can do with what is infinite, but not with what is no number.
        told = np.where(np.isfinite(errors), errors, np.inf).tolist()
        done = [self._study.tell(*pair) for pair in zip(asked, told, strict=True)]
        self._count += len(done)
        if self._file is None:
            return
        try:
            for trial in done:
                self._file.add_trial(self._lean(trial, whole=trial is done[-1]))
        except OSError as err:
            msg = f'Cannot write trials of the study {self._file.study_name!r}: {err.strerror}.'
            raise ResultError(msg) from err

    def _others(self) -> list[Any]:
        """Return the finished trials in the file that were not seen and are not ours."""
        assert self._file is not None  # noqa: S101
        complete = self._optuna.trial.TrialState.COMPLETE
        found = [
            trial
            for trial in self._file.get_trials(deepcopy=False, states=(complete,))
            if trial.number not in self._seen
        ]
        self._seen.update(trial.number for trial in found)
        return [trial for trial in found if trial.user_attrs.get(_PROCESS) != self._token]

    def _lean(self, trial: Any, *, whole: bool) -> Any:
        """Return a trial for the file; only the last of a batch holds the state of CMA-ES."""
        return self._optuna.trial.create_trial(
            params=trial.params,
            distributions=trial.distributions,
            value=trial.value,
            user_attrs={_PROCESS: self._token},
            system_attrs={
                key: value
                for key, value in trial.system_attrs.items()
                if whole or ':optimizer' not in key
            },
        )


def _batch(method: Method, size: int) -> int:
    """Return how many trials to ask for at once."""
    if method == 'cmaes':
        return _MORE * (4 + math.floor(3 * math.log(size)))
    return _NSGAII_POPULATION if method == 'nsgaii' else _RANDOM_BATCH


def _sampler(optuna: Any, method: Method, seed: int, population: int) -> Any:
    if method == 'random':
        return optuna.samplers.RandomSampler(seed=seed)
    if method == 'nsgaii':
        return optuna.samplers.NSGAIISampler(seed=seed, population_size=_NSGAII_POPULATION)
    version = tuple(int(part) for part in optuna.__version__.split('.')[:2])
    restarts = {'restart_strategy': 'bipop'} if version < _WITHOUT_RESTARTS else {}
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # some versions call restarts an experiment
        return optuna.samplers.CmaEsSampler(seed=seed, popsize=population, **restarts)
