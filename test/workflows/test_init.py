# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is proposed for recordings and a model, and how it is written."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from builders.recorded_pendulum import FOLDER
from builders.trajectories import measure
from sysid_ros.config.files import load_calibration
from sysid_ros.config.schema import VerdictKind
from sysid_ros.errors import BagError, ConfigError
from sysid_ros.fit.observer import Nobody
from sysid_ros.signals import SignalType, TimeSeries
from sysid_ros.workflows.init import (
    CalibrationProposal,
    ProposedBag,
    ProposedTarget,
    after_steps,
    find_bags,
    gains_contradicted,
    last_bodies,
    most_of,
    propose_calibration,
    roles_of,
    sort_arguments,
    targets_of_forces,
    to_yaml,
)
from sysid_ros.workflows.preflight import PredictedParameter

HOSTILE = 'a: {b}\n- #\x1b[31m'


@pytest.mark.parametrize(
    ('seconds', 'held_out'),
    [
        *(({'a': 9, name: 9, 'b': 9}, name) for name in ('validate_1', 'valid', 'run-test')),
        *(({'a': 9, name: 9, 'b': 9}, name) for name in ('held_out', 'Evaluation', 'my_val_2')),
        # Words that only hold such a name say nothing.
        *(({name: 9, 'a': 9, 'b': 9}, 'b') for name in ('latest', 'interval', 'contest', 'valve')),
        ({'a': 60, 'b': 60, 'c': 50}, 'c'),
        ({'a': 42, 'b': 128}, 'a'),  # not the longest
        ({'validate_1': 60}, None),
        # Of six the last two, without the longest.
        ({'a': 9, 'b': 9, 'c': 9, 'd': 9, 'e': 10, 'f': 9}, 'df'),
    ],
)
def test_held_out_is_what_is_named_so_else_the_last(
    seconds: dict[str, float], held_out: str | None
) -> None:
    roles = roles_of([Path(name) for name in seconds], list(seconds.values()))
    found = [path.name for path, (role, _) in roles.items() if role == 'validate']
    assert found == ([held_out] if held_out in seconds else list(held_out or ''))


def test_a_folder_stands_for_the_recordings_in_it() -> None:
    assert find_bags(str(FOLDER)) == [FOLDER / 'train', FOLDER / 'validate']
    with pytest.raises(BagError, match='No recording matches'):
        find_bags(str(FOLDER / 'nothing_*'))


def test_tables_with_equal_columns_are_recordings_and_others_parts_of_one(tmp_path: Path) -> None:
    for name, columns in (('a', 'time,q'), ('b', 'time,q')):
        (tmp_path / f'{name}.csv').write_text(f'{columns}\n0,0\n')
    assert find_bags(str(tmp_path)) == [tmp_path / 'a.csv', tmp_path / 'b.csv']
    (tmp_path / 'b.csv').write_text('time,command\n0,0\n')
    assert find_bags(str(tmp_path)) == [tmp_path]


def test_the_model_may_stand_anywhere_among_the_recordings() -> None:
    train, model = str(FOLDER / 'train'), str(FOLDER / 'arm.xml')
    assert sort_arguments([model, train]) == sort_arguments([train, model])
    with pytest.raises(ConfigError, match='one model'):
        sort_arguments([model, model, train])
    with pytest.raises(ConfigError, match='sysid init BAG'):
        sort_arguments([model])


def test_names_of_others_stay_text_in_the_file(tmp_path: Path) -> None:
    bag = ProposedBag(tmp_path / HOSTILE, 'train', '', 2.0, ('j',), 1, 0.1, (HOSTILE,))
    bad = ProposedBag(tmp_path / 'bad', None, HOSTILE)
    targets = (
        ProposedTarget(f'joint/{HOSTILE}/damping', (0.0, 1.0), note=HOSTILE),
        ProposedTarget('actuator/*/delay', (0.0, 0.1), name='command_delay', deviation=0.03),
        ProposedTarget('joint/j/armature', (0.0, 1.0), left_out=HOSTILE),
    )
    proposal = CalibrationProposal(
        tmp_path / f'{HOSTILE}.xml',
        (HOSTILE,),
        (bag, bad),
        None,
        targets,
        (HOSTILE,),
        estimator='windows',
        sensors=('q',),
    )
    file = tmp_path / 'calibration.yaml'
    file.write_text(to_yaml(proposal, tmp_path, 'mapping.yaml'))
    found = load_calibration(file)
    assert [Path(item.path).name for item in found.bags] == [glob.escape(HOSTILE)]
    damping, delay = found.parameters
    assert (damping.target, delay.name, delay.shared) == (targets[0].target, 'command_delay', True)
    assert delay.prior is not None
    assert delay.prior.std == 0.03
    assert (found.model.name, found.sensors) == (f'{HOSTILE}.xml', ('q',))


@pytest.mark.parametrize(
    ('attribute', 'nominal', 'kind', 'deviation', 'left_out'),
    [
        ('kp', 200.0, VerdictKind.CONFOUNDED, 60.0, ''),
        ('damping', 2.0, VerdictKind.CONFOUNDED, 2.0, ''),
        ('delay', 0.0, VerdictKind.CONFOUNDED, None, 'confounded'),
        ('mass_scaled', 1.0, VerdictKind.CONFOUNDED, None, ''),
        ('kp', 200.0, VerdictKind.NOT_EXCITED, None, 'not excited'),
        ('kp', 200.0, VerdictKind.IDENTIFIED, None, ''),
    ],
)
def test_what_is_confounded_is_believed_and_not_held(
    attribute: str, nominal: float, kind: VerdictKind, deviation: float | None, left_out: str
) -> None:
    item = ProposedTarget(f'actuator/m/{attribute}', (0.0, 1000.0))
    said = PredictedParameter('p', '', nominal, 1.0, str(kind), 'Why.', kind)
    found = after_steps(item, said, worst=attribute, refuted=False)
    assert (found.deviation, found.left_out) == (deviation, left_out)
    prior = {} if deviation is None else {'prior': {'std': deviation}}
    assert found.entry == item.entry | prior
    assert after_steps(item, said, worst='another', refuted=False).deviation is None


@pytest.mark.parametrize(('white', 'left_out'), [(2.9, ''), (3.1, 'not excited')])
def test_what_the_model_lacks_leaves_nothing_out(white: float, left_out: str) -> None:
    item = ProposedTarget('joint/j/damping', (0.0, 9.0))
    kind = VerdictKind.NOT_EXCITED
    said = PredictedParameter('p', '', 1.0, 30.0, str(kind), 'Why.', kind, 3.0, white)
    assert after_steps(item, said, worst='', refuted=False).left_out == left_out
    # Values of its kind that the steps refute are none to hold it at.
    assert not after_steps(item, said, worst='', refuted=True).left_out


@pytest.mark.parametrize(('value', 'left_out'), [(0.93, True), (0.97, False)])
def test_a_value_that_recordings_do_not_contradict_stays(*, value: float, left_out: bool) -> None:
    item = ProposedTarget('joint/*/solimpfriction', (0.5, 0.9999), 'creep', trusted=True)
    kind = VerdictKind.AT_BOUND
    said = PredictedParameter('creep', '', 0.9, 0.05, str(kind), 'Why.', kind, value)
    assert bool(after_steps(item, said, worst='', refuted=False).left_out) == left_out


HAND = """
<mujoco>
  <worldbody>
    <body name="upper">
      <joint name="elbow" armature="1"/><geom size=".05" mass="1"/>
      <body name="hand" pos=".2 0 0">
        <joint name="wrist" armature=".001" damping=".5"/><geom size=".02" mass=".1"/>
        <body name="flange"><geom size=".02" mass=".1"/></body>
        <body name="finger"><joint name="finger"/><geom size=".01" mass=".01"/></body>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


def test_the_last_body_of_each_arm_is_a_candidate_but_not_each_finger() -> None:
    model = mujoco.MjModel.from_xml_string(HAND)
    assert last_bodies(model, ['elbow', 'wrist']) == ('flange',)
    assert last_bodies(model, ['elbow']) == ('upper',)
    assert last_bodies(model, ['elbow', 'wrist', 'finger']) == ('finger',)
    arm = HAND[HAND.index('<body name="upper">') : HAND.index('</worldbody>')]
    finger = arm[arm.index('<body name="finger">') :].splitlines()[0]
    one = arm.replace(finger, finger + finger.replace('finger', 'thumb'))
    model = mujoco.MjModel.from_xml_string(
        HAND.replace(arm, one + arm.replace('name="', 'name="left_'))
    )
    joints = ['elbow', 'wrist', 'finger', 'thumb', 'left_elbow', 'left_wrist']
    found = last_bodies(model, joints)
    assert len(found) == 2
    assert 'left_flange' in found
    assert last_bodies(model, joints[4:]) == ('left_flange',)


@pytest.mark.parametrize(
    ('moved', 'links'),
    [
        (['elbow', 'wrist'], ['upper', 'hand']),
        (['elbow'], ['upper']),
        (['elbow', 'finger'], ['upper', 'finger']),
    ],
)
def test_links_that_move_as_one_have_one_inertia(moved: list[str], links: list[str]) -> None:
    model = mujoco.MjModel.from_xml_string(HAND)
    found = targets_of_forces(model, moved, (), 'auto')
    paths = [item.target for item in found if item.target.startswith('body/')]
    assert paths == [f'body/{link}/inertia' for link in links]


def test_bounds_are_those_of_each_joint() -> None:
    model = mujoco.MjModel.from_xml_string(HAND)
    elbow, wrist = (most_of(model, dof, 0.0, 0.0) for dof in (0, 1))
    assert (elbow['armature'], wrist['armature']) == (pytest.approx(10.0, rel=0.05), 0.2)
    assert (elbow['damping'], wrist['damping']) == (1.0, 5.0)
    strong = most_of(model, 0, 4000.0, 1.0)
    assert strong['armature'] == pytest.approx(40.0)
    assert (strong['damping'], most_of(model, 1, 10.0, 4.0)['damping']) == (400.0, 8.0)
    assert strong['frictionloss'] == elbow['frictionloss']


def servo(kp: float) -> str:
    return f'<position name="m" joint="j" kp="{kp}" kv="{kp / 50}" forcerange="-4 4"/>'


def forced(kp: float) -> mujoco.MjSpec:
    """Return a pendulum on a servo, whose force is measured."""
    return mujoco.MjSpec.from_string(
        '<mujoco><option timestep=".005" integrator="implicitfast"/><worldbody><body>'
        '<joint name="j" axis="0 1 0" damping=".1"/><geom size=".05" pos="0 0 -.3"/></body>'
        f'</worldbody><actuator>{servo(kp).replace("4", "90")}</actuator>'
        '<sensor><jointpos name="q" joint="j"/><jointactuatorfrc name="f" joint="j"/></sensor>'
        '</mujoco>'
    )


@pytest.mark.parametrize(('hidden', 'contradicted'), [(60.0, True), (33.0, False), (15.0, True)])
def test_gains_that_measured_forces_contradict_are_told(
    workshop: Any, hidden: float, contradicted: bool
) -> None:
    times = np.arange(0, 6, 0.01)
    told = 0.5 * np.sin(5 * times) + 0.3 * np.sin(11 * times + 1)
    commands = TimeSeries.from_columns(times, told[:, None], ['m'], SignalType.MjCtrl)
    noise = {'q': 1e-4, 'f': 0.02}
    robot = forced(hidden).compile()
    run = measure(robot, times=times, commands=commands, noise=noise, sampled=True)
    problem = workshop.problem(forced(30.0), ('joint/j/damping',), run)
    assert gains_contradicted(problem) == contradicted


@pytest.mark.slow
def test_what_is_proposed_is_what_the_robot_hides() -> None:
    paths = [FOLDER / 'train', FOLDER / 'validate']
    found = propose_calibration(paths, FOLDER / 'arm.xml', Nobody())
    assert (found.problem, found.mapping, found.estimator) == ('', None, 'auto')
    assert [bag.role for bag in found.bags] == ['train', 'validate']
    # truth.yaml has other values for these, and for no other.
    kinds = {'armature', 'damping', 'frictionloss', 'delay', 'mass_scaled'}
    assert {item.attribute for item in found.chosen} == kinds
    assert [i.target for i in found.chosen if i.attribute == 'mass_scaled'] == [
        'body/tip/mass_scaled'
    ]


ARM = """
<mujoco><option integrator="implicitfast"/><worldbody><body>
  <joint name="j" axis="0 1 0" armature=".03" frictionloss="{}" solimpfriction="{} .95"/>
  <geom type="capsule" fromto="0 0 0 .2 0 0" size=".02" mass=".3"/></body></worldbody>
  <actuator><position name="m" joint="j" kp="12" kv=".5"/></actuator>
  <sensor><jointpos name="q" joint="j"/></sensor></mujoco>
"""


@pytest.mark.slow
@pytest.mark.parametrize('impedance', [0.9, 0.9995])
def test_joints_that_dry_friction_holds_without_creep_are_seen(
    tmp_path: Path, impedance: float
) -> None:
    robot = mujoco.MjModel.from_xml_string(ARM.format(0.2, impedance))
    (tmp_path / 'arm.xml').write_text(ARM.format(0.1, 0.9))
    rng = np.random.default_rng(4)
    for name in ('train_1', 'train_2', 'validate'):
        told = np.repeat(rng.uniform(-0.8, 0.8, 10), 200)  # a pose for two seconds each
        times = 0.01 * np.arange(len(told))
        commands = TimeSeries.from_columns(times, told[:, None], ['m'], SignalType.MjCtrl)
        run = measure(robot, times=times, commands=commands, noise={'q': 1e-4}, seed=rng)
        rows = np.column_stack([times, run.measurements[0].data[:, 0], told])
        header = 'time,j_position,j_command'
        np.savetxt(tmp_path / f'{name}.csv', rows, '%.7g', ',', header=header, comments='')
    paths = [tmp_path / f'{name}.csv' for name in ('train_1', 'train_2', 'validate')]
    found = propose_calibration(paths, tmp_path / 'arm.xml', Nobody())
    assert found.problem == ''
    chosen = {item.attribute for item in found.chosen}
    assert ('solimpfriction' in chosen) == (impedance > 0.9)
    assert 'frictionloss' in chosen
