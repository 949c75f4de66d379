# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Residuals of a recording whose commands reached robot and recorder at different moments.

How much later than its stamp a command acted, δ, is unknown for each message: known is that it is
near zero, N(0, s²). Near some δ₀ the residuals are r + G (δ - δ₀), and their least squares over δ
as well as the parameters is that of the parameters alone, weighted with the covariance I + G S Gᵀ
of noise and arrivals together (Björck, Numerical Methods for Least Squares Problems, 1996, section
4.3). Left out, each error is a push on the robot that is like no sensor's noise.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.estimation.arrivals.messages import messages_of
from sysid_ros.estimation.arrivals.pulses import Simulated, trial_of
from sysid_ros.estimation.arrivals.responses import Responses, estimate, less_likely
from sysid_ros.estimation.layout import ARRIVAL
from sysid_ros.estimation.noise import arrival_jitter
from sysid_ros.estimation.solver.differences import DerivedResiduals
from sysid_ros.model.targets import Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sysid_ros.estimation.arrivals.pulses import Trial
    from sysid_ros.estimation.arrivals.responses import System
    from sysid_ros.estimation.residuals import Residuals
    from sysid_ros.estimation.solver.differences import StepChanges
    from sysid_ros.estimation.solver.solver import Solution
    from sysid_ros.rollout.runs import Run

    #: Sequence, messages that have been moved, and until when one of them may act, s.
    _Span = tuple[int, NDArray[np.int64], float]


class Standing:
    """Residuals without what a delay does that is common to a sequence's commands.

    Each sequence has an arrival offset among the unknowns, which takes back the others' part.

    Attributes:
        bare: The residuals as they are.
        reference: (p,) candidate by whose delays the commands always act.
        common: (number of sequences, p) derivative of the common delay, that is of the mean.
        only_delays: (p,) unknowns that are nothing but such a delay: they move nothing here.
    """

    def __init__(self, bare: Residuals) -> None:
        """Find which unknowns move the commands.

        Args:
            bare: The residuals as they are.
        """
        self.bare = bare
        self.reference = np.zeros(len(bare.unknowns))
        self.common = bare.common_delays()
        self.only_delays = np.array(
            [
                all(
                    target.attribute == 'arrival_offset'
                    or (target.attribute == 'delay' and target.role is Role.COMMAND)
                    for target in unknown.targets
                )
                for unknown in bare.unknowns
            ],
            dtype=bool,
        )
        self.only_delays &= np.all(np.isin(self.common, (0.0, 1.0)), axis=0)
        self._offsets = [
            next(
                j
                for j, unknown in enumerate(bare.unknowns)
                for target in unknown.targets
                if (target.name, target.attribute) == (run.sequence.name, 'arrival_offset')
            )
            for run in bare.runs
        ]
        self._partial = np.any(self.common != 0, axis=0) & ~self.only_delays

    def __call__(self, candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (n, m) residuals of (m, p) candidates."""
        values = self.bare(self.taken_back(candidates))
        values[self.bare.prior_rows] = self.bare.priors.residual(candidates).T
        return values

    def step_changes(
        self,
        x: NDArray[np.float64],
        steps: NDArray[np.float64],
        wanted: NDArray[np.bool_],
        base: NDArray[np.float64] | None,
    ) -> StepChanges:
        """Evaluate a candidate and its neighbours in one batch, as the bare residuals do."""
        columns = wanted & ~self.only_delays
        columns[self._offsets] |= bool(np.any(columns & self._partial))
        around = self.bare.step_changes(self.taken_back(x[None])[0], steps, columns, base)
        self.take_back(around.changes, np.where(wanted, steps, 0.0), steps)
        around.residual[self.bare.prior_rows] = self.bare.priors.residual(x[None])[0]
        return around

    def take_back(
        self,
        changes: NDArray[np.float64],
        steps: NDArray[np.float64],
        offsets: NDArray[np.float64],
    ) -> None:
        """Take what common delays do out of (n, p) changes of the bare residuals, in place.

        Args:
            changes: By steps of each unknown.
            steps: (p,) those steps, zero for unknowns that were not moved.
            offsets: (p,) the steps of arrival offsets that were moved in any case.
        """
        for run, offset in enumerate(self._offsets):
            rows = self.bare.rows(run)
            moved = (self.common[run] != 0) & self._partial & (steps != 0)
            for column in np.flatnonzero(moved):
                share = self.common[run, column] * steps[column] / offsets[offset]
                changes[rows, column] -= share * changes[rows, offset]
        changes[:, self.only_delays] = 0.0
        changes[self.bare.prior_rows] = -self.bare.priors.matrix * steps

    def later(self, candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (number of sequences, m) by how much later commands would act by the delays, s."""
        found: NDArray[np.float64] = self.common @ (candidates - self.reference).T
        return found

    def taken_back(self, candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (m, p) candidates of the bare residuals whose commands act where they stand."""
        found: NDArray[np.float64] = candidates.copy()
        found[:, self._offsets] -= self.later(candidates).T
        return found


#: Commands are moved to where they are found so often at most, or until that lowers the squares by
#: less than this part, or until none moves by this part of the errors' scale; what those do that
#: move farther is measured anew.
_MOVES, _SMALL_GAIN = 10, 1e-3
_MOVED = 0.3
#: A move that makes what follows less likely is halved down to this share, and then not made, in so
#: many trials; in so many more, those near to it are not made either.
_LEAST_SHARE, _TRIALS = 0.2, 16
#: What superposition has found likelier may be less likely by this in a simulation, as minus twice
#: the logarithm.
_BESIDE = 0.5
#: Residuals after a message are large from so many times the median of their squares on. The last
#: message that is followed by this part of them, or one of so many up to it, is the first that the
#: robot received late, by so many seconds.
_UNEXPLAINED, _NEARLY_ALL, _UP_TO = 6.0, 0.8, 3
_STALLS = np.arange(0.0025, 0.0251, 0.0025)
#: Or one of them may be aside from where it is taken to be, by these shares of a time step.
_ASIDE = (-1.0, -0.5, -0.2, 0.2, 0.5, 1.0)
#: Outside of a sequence a message does nothing, and says nothing of where it should be; inside, it
#: does from this part of a time step on.
_JUST = 0.05
#: The robot receives messages as evenly as the recorder does. Errors that would have to be so many
#: times as large are not what explains the residuals.
_IMPLAUSIBLE = 10.0
#: Nor are they where less than this part of the moves that they ask for makes anything likelier.
_BELIEVED = 0.1
#: Nor are they of use where all of them lower the squares by no more than this, in variances of the
#: noise.
_NEXT_TO_NOTHING = 10.0
#: Errors take at most this part of a sensor's squares: the estimate of it is noisy.
_MOST_TAKEN = 0.9


class WithArrivals(DerivedResiduals):
    """Residuals from which what errors of arrival do is taken out.

    After the residuals come the errors themselves, in units of their deviations: the sum of all
    squares is what weighted least squares makes least.

    A delay that is common to a sequence's commands moves none of them here: they stay where they
    are taken to have arrived, and what changes is how far that is from their stamps. Commands that
    cross the border of a time step would bend the residuals, and the errors as well.

    Attributes:
        bare: The residuals as they are.
        unknowns: What a candidate's values are.
        samples: What each residual is.
        exact: (p,) unknowns whose derivative needs no difference.
        scale: Of the errors: half of them are below .74 times that, s.
    """

    bare: Residuals

    def __init__(self, bare: Residuals, solution: Solution, deviation: float) -> None:
        """Begin with commands that act at their stamps.

        Args:
            bare: The residuals as they are, which have an arrival offset for each sequence among
                their unknowns; the commands of their simulations will be moved.
            solution: A rough solution of them.
            deviation: Standard deviation of the errors as far as it is known, s.
        """
        super().__init__(bare)
        self.unknowns = bare.unknowns
        self.scale = deviation
        self._standing = Standing(bare)
        self._standing.reference = solution.x.copy()
        self.exact = bare.exact | self._standing.only_delays
        self._messages = [
            messages_of(run, bare.delays(index, solution.x), deviation)
            for index, run in enumerate(bare.runs)
        ]
        self._scanned: set[tuple[int, int]] = set()
        x = solution.x
        self._trial: Trial = Simulated(bare, self._messages, x)
        self._length, gone = Responses(bare, self._messages, self._trial, deviation).lengths()
        self._untried = True
        self._systems: list[System] = []
        if self._length:
            self._trial = trial_of(bare, self._messages, x, gone)
            self._systems = self._responses().measure(self._length)
        self.samples = bare.samples

    @property
    def noise(self) -> dict[str, float]:
        """Sensor name to the standard deviation that its residuals are divided by."""
        return self.bare.noise

    @property
    def runs(self) -> tuple[Run, ...]:
        """The sequences, with their commands moved."""
        return self.bare.runs

    def __call__(self, candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (n, m) residuals of (m, p) candidates, dimensionless."""
        return self._without(self._standing(candidates), self._known(candidates))

    def step_changes(
        self,
        x: NDArray[np.float64],
        steps: NDArray[np.float64],
        columns: NDArray[np.bool_] | None = None,
        base: NDArray[np.float64] | None = None,
    ) -> StepChanges:
        """Evaluate a candidate and its neighbours in one batch, as the bare residuals do."""
        wanted = np.ones(len(x), dtype=bool) if columns is None else columns
        known = self._known(x[None])
        bare = None if base is None else self._with(base[:, None], known)[:, 0]
        around = self._standing.step_changes(x, steps, wanted, bare)
        changes = self._without(around.changes, self._changes(np.where(wanted, steps, 0.0)))
        if base is None:
            base = self._without(around.residual[:, None], known)[:, 0]
        return around._replace(residual=base, changes=changes)

    def spread(self, residual: NDArray[np.float64], *, robust: bool = False) -> dict[str, float]:
        """Return how far each sensor's residuals scatter around zero, dimensionless.

        What the errors have taken out of them is put back.
        """
        found = self.bare.spread(residual[: len(self.bare.samples.time)], robust=robust)
        taken = self.samples.taken
        if taken is None:
            return found
        left = dict(zip(self.samples.sensors, np.sqrt(1.0 - taken), strict=True))
        return {sensor: float(value / left[sensor]) for sensor, value in found.items()}

    def rescaled(self, solution: Solution, noise: Mapping[str, float]) -> Solution:
        """Change the scales, and return a solution in the new ones."""
        unit = np.ones(len(solution.x))
        known, changes = self._known(solution.x[None]), self._changes(unit)
        bare = dataclasses.replace(
            solution,
            residual=self._with(solution.residual[:, None], known)[:, 0],
            jacobian=self._with(solution.jacobian, changes),
        )
        factor = self.bare.factors(noise)
        self._systems = [
            system.scaled(factor[self.bare.rows(run)]) for run, system in enumerate(self._systems)
        ]
        bare = self.bare.rescaled(bare, noise)
        return dataclasses.replace(
            bare,
            residual=self._without(bare.residual[:, None], known)[:, 0],
            jacobian=self._without(bare.jacobian, changes),
        )

    def errors(self) -> dict[str, tuple[NDArray[np.float64], ...]]:
        """Return sequence name to the (n,) errors of each series of commands, s."""
        found = {}
        for run, own in zip(self.runs, self._messages, strict=True):
            found[run.sequence.name] = tuple(
                times - recorded.times
                for times, recorded in zip(own.times(run), run.sequence.commands, strict=True)
            )
        return found

    def tell(self, solution: Solution) -> Solution | None:
        """Find the errors for the first time; return the solution with them.

        Returns:
            None, and the commands back at their stamps, where errors are not what explains the
            residuals: what the model lacks would pass for them.
        """
        if self._length and self._find(solution.x, first=True):
            jacobian = solution.jacobian.copy()
            unit = np.ones(len(solution.x))
            self._standing.take_back(jacobian, unit, unit)
            return self._with_errors(solution, jacobian)
        self.bare.retime([[s.times for s in run.sequence.commands] for run in self.runs])
        return None

    def locate(self, solution: Solution) -> Solution:
        """Find the errors anew at another solution; return it with them."""
        jacobian = self._with(solution.jacobian, self._changes(np.ones(len(solution.x))))
        self._find(solution.x)
        return self._with_errors(solution, jacobian)

    def _find(self, x: NDArray[np.float64], *, first: bool = False) -> bool:
        """Find the errors, and how large they are, at a candidate.

        What errors do is measured anew where commands are found: it is linear only as far as a
        command stays in its time step.

        Args:
            x: (p,) candidate.
            first: Whether it is to be seen if errors explain the residuals at all.

        Returns:
            Whether they do: they would not have to be far too large, most moves of commands make
            the residuals smaller, and all together by more than next to nothing.
        """
        later = self._standing.later(x[None])[:, 0]
        for own, run, delay in zip(self._messages, self.runs, later, strict=True):
            own.effect = own.effect + delay
            own.move(run, own.error - delay)
        self._standing.reference = x.copy()
        residual = self._trial.begin(x)
        before = float(residual @ residual)
        if self._untried:
            self._untried = False
            residual, moved = self._try(x, residual, [-own.held_up for own in self._messages])
            self._measure_anew(moved)
        found = self._move(x, residual, first=first)
        if found is None:
            return False
        residual, moved = self._scan(x, found)
        if any(own.any() for own in moved):
            self._measure_anew(moved)
            self._move(x, residual, first=False)
        after = self._trial.at()
        return not first or before - float(after @ after) > _NEXT_TO_NOTHING

    def _move(
        self, x: NDArray[np.float64], residual: NDArray[np.float64], *, first: bool
    ) -> NDArray[np.float64] | None:
        """Move messages to where they are found, until none moves far.

        Returns:
            The residuals there; None where errors of arrival are not what explains them.
        """
        largest = _IMPLAUSIBLE * self.scale if first else np.inf
        for number in range(_MOVES):
            parts = [residual[self.bare.rows(run)][:, None] for run in range(len(self._messages))]
            self._systems, self.scale, errors = estimate(
                self._messages, self._systems, parts, self.scale
            )
            if self.scale > largest:
                return None
            asked = [
                np.abs(goal - own.error) >= _MOVED * self.scale
                for goal, own in zip(errors, self._messages, strict=True)
            ]
            before = float(residual @ residual)
            residual, moved = self._try(x, residual, errors)
            made = sum(int(np.sum(far & own)) for far, own in zip(moved, asked, strict=True))
            if first and not number and made < _BELIEVED * sum(int(own.sum()) for own in asked):
                return None
            small = number and before - float(residual @ residual) < _SMALL_GAIN * before
            if small or not any(own.any() for own in moved):
                break
            self._measure_anew(moved)
        return residual

    def _responses(self) -> Responses:
        return Responses(self.bare, self._messages, self._trial, self.scale)

    def _measure_anew(self, moved: list[NDArray[np.bool_]]) -> None:
        """Measure what messages do that have moved far."""
        if any(own.any() for own in moved):
            anew = self._responses().measure(self._length, moved)
            self._systems = [
                system.with_columns(other, own)
                for system, other, own in zip(self._systems, anew, moved, strict=True)
            ]

    def _try(
        self,
        x: NDArray[np.float64],
        residual: NDArray[np.float64],
        goals: list[NDArray[np.float64]],
    ) -> tuple[NDArray[np.float64], list[NDArray[np.bool_]]]:
        """Move messages towards (k,) errors as far as what follows each of them becomes likelier.

        What a message does is linear only nearby, and messages that come at once hide each other:
        a step may be worse than none. It is halved then, at last to nothing.

        Args:
            x: (p,) candidate.
            residual: (n,) bare residuals where the messages are.
            goals: Of each sequence.

        Returns:
            The residuals where they are now, and which messages have moved far.
        """
        begun = [own.error.copy() for own in self._messages]
        shares = [np.ones(len(own)) for own in begun]
        found = residual
        # What was found by superposition has to hold in a simulation, too.
        for exact in (True,) if self._trial.exact else (False, True):
            found = self._shorten(x, residual, begun, goals, shares, exact=exact)
        far = [
            np.abs(own.error - start) >= _MOVED * self.scale
            for own, start in zip(self._messages, begun, strict=True)
        ]
        return found, far

    def _shorten(
        self,
        x: NDArray[np.float64],
        residual: NDArray[np.float64],
        begun: list[NDArray[np.float64]],
        goals: list[NDArray[np.float64]],
        shares: list[NDArray[np.float64]],
        *,
        exact: bool,
    ) -> NDArray[np.float64]:
        """Shorten moves that make what follows less likely; return the residuals after them.

        Args:
            x: (p,) candidate.
            residual: (n,) bare residuals where the messages were.
            begun: Of each sequence, the (k,) errors there, …
            goals: … those that are wanted, …
            shares: … and the parts of the way that are made; changed in place.
            exact: Whether to simulate what follows.
        """
        bearable = _BESIDE if exact and not self._trial.exact else 0.0
        for trial in range(2 * _TRIALS):
            for own, run, start, goal, share in zip(
                self._messages, self.runs, begun, goals, shares, strict=True
            ):
                own.move(run, start + share * (goal - start))
            found = self._trial.begin(x) if exact else self._trial.at()
            worse = [
                self._worse(run, each, residual, found, bearable) for run, each in enumerate(begun)
            ]
            if not any(each.any() for each in worse):
                return found
            for own, share, each in zip(self._messages, shares, worse, strict=True):
                share[each] = np.where(share[each] > _LEAST_SHARE, 0.5 * share[each], 0.0)
                # Messages that hide each other may not come to rest: they all stay then.
                for place in np.flatnonzero(each) if trial >= _TRIALS else ():
                    share[np.abs(own.effect - own.effect[place]) < self._length] = 0.0
        for run, own, start, share, each in zip(
            self.runs, self._messages, begun, shares, worse, strict=True
        ):
            if each.any():
                share[:] = 0.0
                own.move(run, start)
        return self._trial.begin(x) if exact else self._trial.at()

    def _scan(
        self, x: NDArray[np.float64], residual: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], list[NDArray[np.bool_]]]:
        """Try, where residuals stay large, whether the robot was held up, since when and how long.

        It then received at once what had been sent meanwhile.

        Returns:
            The residuals with the likeliest of these, and which messages have moved far.
        """
        begun = [own.error.copy() for own in self._messages]
        best, current = [own.copy() for own in begun], residual.copy()
        centres = [self._unexplained(run, residual) for run in range(len(begun))]
        self._scanned.update(
            (run, place) for run, own in enumerate(centres) for place in own.tolist()
        )
        if not any(len(own) for own in centres):
            return residual, [np.zeros(len(own), dtype=bool) for own in begun]
        for back in range(_UP_TO):
            for stall in _STALLS:
                spans = []
                for index, own in enumerate(self._messages):
                    goal = best[index].copy()
                    for centre in centres[index] - back:
                        until = own.effect[max(centre, 0)] + stall
                        same = own.series == own.series[max(centre, 0)]
                        late = same & (np.arange(len(goal)) >= centre) & (own.effect < until)
                        goal[late] = until - own.effect[late]
                        spans.append((index, np.flatnonzero(late), until))
                    own.move(self.runs[index], goal)
                self._take_likelier(spans, best, current)
            # What a message does bends where it enters another time step: it may stand before one.
            for share in _ASIDE:
                spans = []
                for index, own in enumerate(self._messages):
                    goal, move = best[index].copy(), share * self.runs[index].timestep
                    for centre in np.maximum(centres[index] - back, 0):
                        goal[centre] += move
                        until = own.effect[centre] + max(goal[centre], best[index][centre])
                        spans.append((index, np.array([centre]), until))
                    own.move(self.runs[index], goal)
                self._take_likelier(spans, best, current)
        self._take_likelier(self._inside(best), best, current)
        for own, run, error in zip(self._messages, self.runs, begun, strict=True):
            own.move(run, error)
        return self._try(x, residual, best)

    def _inside(self, best: Sequence[NDArray[np.float64]]) -> list[_Span]:
        """Let the messages next to the ends of each sequence act just inside."""
        spans = []
        for index, (own, run) in enumerate(zip(self._messages, self.runs, strict=True)):
            goal, acting = best[index].copy(), own.effect + best[index]
            end, just = run.sequence.duration + run.timestep, _JUST * run.timestep
            before, after = np.flatnonzero(acting < 0)[-1:], np.flatnonzero(acting >= end)[:1]
            for which, moment in ((before, just), (after, end - just)):
                if len(which):
                    goal[which] = moment - own.effect[which]
                    spans.append((index, which, max(moment, float(acting[which[0]]))))
            own.move(run, goal)
        return spans

    def _take_likelier(
        self,
        spans: Sequence[_Span],
        best: list[NDArray[np.float64]],
        current: NDArray[np.float64],
    ) -> None:
        """Keep, where it makes what follows likelier, where messages are now.

        Args:
            spans: What has been moved.
            best: Of each sequence, the likeliest errors so far; changed in place, as are …
            current: … (n,) the residuals with them, near what was moved.
        """
        found = self._trial.at()
        for index, which, until in spans:
            own, rows = self._messages[index], self.bare.rows(index)
            time = self.bare.samples.time[rows]
            earliest = np.minimum(best[index][which], own.error[which])
            begin = np.min(own.effect[which] + np.minimum(earliest, 0.0))
            near = rows.start + np.flatnonzero(
                (time >= begin - self.runs[index].timestep) & (time < until + self._length)
            )
            cost = np.sum(found[near] ** 2 - current[near] ** 2) + np.sum(
                less_likely(own.error[which], self.scale)
                - less_likely(best[index][which], self.scale)
            )
            if cost < 0:
                best[index][which], current[near] = own.error[which], found[near]

    def _unexplained(self, index: int, residual: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return messages after which residuals are large, apart from each other, worst first."""
        own, rows = self._messages[index], self.bare.rows(index)
        if not len(own.effect):
            return np.zeros(0, dtype=np.int64)
        time = self.bare.samples.time[rows]
        order = np.argsort(time, kind='stable')
        squares = np.concatenate([[0.0], np.cumsum(residual[rows][order] ** 2)])
        # A command acts in the whole of its time step, and on what is measured at its begin.
        first = np.searchsorted(time[order], own.effect - self.runs[index].timestep)
        last = np.searchsorted(time[order], own.effect + self._length)
        means = (squares[last] - squares[first]) / np.maximum(last - first, 1)
        large = means > _UNEXPLAINED * np.median(means)
        # One of its neighbours may be the first that came late.
        large[[place for run, place in self._scanned if run == index]] = False
        found = []
        while large.any():
            # They are large after all messages of the time before, up to the one that is misplaced.
            worst = np.argmax(np.where(large, means, 0.0))
            near = np.abs(own.effect - own.effect[worst]) < self._length
            place = np.flatnonzero(large & near & (means > _NEARLY_ALL * means[worst]))[-1]
            found.append(place)
            apart = np.abs(own.effect - own.effect[place])
            large &= apart > 2 * (self._length + _STALLS[-1])
        return np.array(found, dtype=np.int64)

    def _worse(
        self,
        index: int,
        begun: NDArray[np.float64],
        before: NDArray[np.float64],
        after: NDArray[np.float64],
        bearable: float,
    ) -> NDArray[np.bool_]:
        """Return (k,) whether moving a message has made what follows it less likely."""
        own, run, rows = self._messages[index], self.runs[index], self.bare.rows(index)
        time = self.bare.samples.time[rows]
        order = np.argsort(time, kind='stable')
        gained = np.concatenate([[0.0], np.cumsum((after[rows] ** 2 - before[rows] ** 2)[order])])
        starts, now = own.effect + begun, own.acting
        first = np.searchsorted(time[order], np.minimum(starts, now) - run.timestep)
        last = np.searchsorted(time[order], np.maximum(starts, now) + self._length)
        cost = gained[last] - gained[first]
        cost += less_likely(own.error, self.scale) - less_likely(begun, self.scale)
        worse: NDArray[np.bool_] = (own.error != begun) & (cost > bearable)
        return worse

    def _with_errors(self, solution: Solution, standing: NDArray[np.float64]) -> Solution:
        """Return a solution with the residuals that it has now.

        Args:
            solution: The values.
            standing: (n, p) derivative of the residuals without what delays do. Errors that are
                small move it little.
        """
        self._describe()
        residual = self(solution.x[None])[:, 0]
        jacobian = self._without(standing, self._changes(np.ones(len(solution.x))))
        return dataclasses.replace(solution, residual=residual, jacobian=jacobian)

    def _parts(self) -> Iterator[tuple[slice, slice, System]]:
        """Yield the rows of each sequence, those of its errors, and its system."""
        place = len(self.bare.samples.time)
        for run, system in enumerate(self._systems):
            own = slice(place, place + system.responses.shape[1])
            yield self.bare.rows(run), own, system
            place = own.stop

    def _known(self, candidates: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Return the (k, m) errors, in units of their deviations, that the simulations are with."""
        return [
            (own.error[:, None] - later) / own.deviation[:, None]
            for own, later in zip(self._messages, self._standing.later(candidates), strict=True)
        ]

    def _changes(self, steps: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Return how (p,) steps of one unknown each change those errors."""
        later = self._standing.common * steps
        return [
            -own / messages.deviation[:, None]
            for messages, own in zip(self._messages, later, strict=True)
        ]

    def bare_point(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (p,) candidate of the bare residuals that moves as one of these does."""
        found: NDArray[np.float64] = self._standing.taken_back(x[None])[0]
        return found

    def of_change(self, change: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (n + k,) change of these residuals with an (n,) change of the bare ones."""
        known = [np.zeros((len(own.effect), 1)) for own in self._messages]
        return self._without(change[:, None], known)[:, 0]

    def _without(
        self, values: NDArray[np.float64], known: list[NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """Return (n + k, m) residuals, or changes of them, from (n, m) bare ones."""
        more = sum(len(errors) for errors in known)
        found = np.concatenate([values, np.zeros((more, values.shape[1]))])
        for (rows, own, system), errors in zip(self._parts(), known, strict=True):
            moved = system.best(values[rows], errors)
            found[rows] += system.responses @ moved
            found[own] = errors + moved
        return found

    def _with(
        self, values: NDArray[np.float64], known: list[NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """Return the (n, m) bare residuals, or changes of them, from (n + k, m) own ones."""
        found: NDArray[np.float64] = values[: len(self.bare.samples.time)].copy()
        for (rows, own, system), errors in zip(self._parts(), known, strict=True):
            found[rows] -= system.responses @ (values[own] - errors)
        return found

    def _describe(self) -> None:
        """Say what each residual is, and how much of each sensor's the errors take."""
        rng = np.random.default_rng(0)
        bare = self.bare.samples
        taken = np.zeros(len(bare.sensors))
        for rows, _, system in self._parts():
            squares = np.mean((system.responses @ system.draws(rng)) ** 2, axis=1)
            taken += np.bincount(bare.sensor[rows], squares, minlength=len(taken))
        number = np.bincount(bare.sensor[bare.sensor >= 0], minlength=len(taken))
        sizes = [len(own.effect) for own in self._messages]
        variance = np.ones(len(bare.time)) if bare.variance is None else bare.variance
        self.samples = dataclasses.replace(
            bare,
            sequence=np.concatenate([bare.sequence, np.repeat(np.arange(len(sizes)), sizes)]),
            time=np.concatenate([bare.time, *(own.effect for own in self._messages)]),
            sensor=np.concatenate([bare.sensor, np.full(sum(sizes), ARRIVAL)]),
            variance=np.concatenate([variance, np.ones(sum(sizes))]),
            taken=np.minimum(taken / np.maximum(number, 1), _MOST_TAKEN),
        )


#: Errors of arrival are looked for with so many of the first weights.
_TRIES = 2
#: Where they are taken out, what they do is known to no more digits than this.
_TOLERANCE = 0.05


class Arrivals:
    """When commands acted: late by what the unknowns say, and by errors of messages beside that.

    The unknowns are delays, and one offset for each sequence. Each message has an error of its own
    beside the offset where there is jitter, and errors can be told.
    """

    def __init__(self, residuals: Residuals, jitter: float) -> None:
        """Begin with commands that act at their stamps.

        Args:
            residuals: With an arrival offset for each sequence among the unknowns.
            jitter: How much the stamps of the commands jitter, as a standard deviation in s; 0 for
                messages without errors.
        """
        self._bare = residuals
        self._jitter = jitter
        self._tries = _TRIES if jitter else 0
        self._found: WithArrivals | None = None

    @property
    def residuals(self) -> Residuals | WithArrivals:
        """What is fitted: the residuals, without what the errors do once they are found."""
        return self._found or self._bare

    def locate(self, solution: Solution) -> Solution:
        """Find the errors, or find them anew; return the solution with them."""
        if self._found is not None:
            return self._found.locate(solution)
        if not self._tries:
            return solution
        self._tries -= 1
        candidate = WithArrivals(self._bare, solution, self._jitter)
        with_errors = candidate.tell(solution)
        if with_errors is None:
            return solution
        self._found = candidate
        return with_errors

    def tolerance(self, tolerance: float) -> float:
        """Return how near to the optimum the last solve ends, in standard errors.

        Args:
            tolerance: The same for commands that act when their stamps say.
        """
        return tolerance if self._found is None else _TOLERANCE

    def errors(self) -> Mapping[str, tuple[NDArray[np.float64], ...]]:
        """Return sequence name to the (n,) errors of each of its series of commands, s."""
        return {} if self._found is None else self._found.errors()


def choose_arrivals(residuals: Residuals, *, whole: bool, loss: str) -> Arrivals:
    """Return how arrivals are dealt with.

    Args:
        residuals: What is fitted.
        whole: Whether to whole sequences: windows are too short to tell errors of messages.
        loss: A robust one takes what a late command does for outliers; as errors, those would
            spread.
    """
    if not whole or loss != 'linear':
        return Arrivals(residuals, 0.0)
    return Arrivals(residuals, arrival_jitter([run.sequence for run in residuals.runs]))
