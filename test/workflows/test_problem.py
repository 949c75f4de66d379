# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a calibration's configuration asks for, and its bags side by side."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from sysid_ros.alignment import Alignment
from sysid_ros.alignment.pairs import Mapping, Pair, PairRole
from sysid_ros.alignment.stamps import StampSource
from sysid_ros.config.schema import CalibrationConfig
from sysid_ros.errors import AlignmentError, FitError
from sysid_ros.fit.observer import Nobody
from sysid_ros.workflows import problem
from sysid_ros.workflows.problem import CalibrationBag, parameters_of, unlike_stamps

MODEL = """
<mujoco><worldbody><body>
  <joint name="j" axis="0 1 0"/><geom size=".05" pos="0 0 -.3" mass="1"/></body></worldbody>
  <sensor><jointpos name="q" joint="j"/><jointactuatorfrc name="tau" joint="j"/></sensor>
</mujoco>
"""


TRUNK = '<geom size=".1" mass="1"/>'


@pytest.mark.parametrize(
    ('kind', 'more', 'names'),
    [
        ('current', {}, {'j/damping': 100.0, 'tau/gain': 10.0}),
        ('torque', {}, {'j/damping': 100.0}),
        ('current', {'sensors': ['q']}, {'j/damping': 100.0}),
        # A motor has 10 N·m for each ampere as often as .1.
        ('unscaled', {}, {'j/damping': 100.0, 'tau/gain': 100.0}),
        (
            'pwm',
            {'parameters': [{'target': 'sensor/*/gain', 'bounds': [0.5, 2.0]}]},
            {'q/gain': 2.0, 'tau/gain': 2.0},
        ),
    ],
)
def test_the_scale_of_a_current_is_identified_also_without_an_entry(
    kind: str, more: dict[str, Any], names: dict[str, float]
) -> None:
    channel = {'topic': '/js', 'field': 'effort', 'label': 'j', 'scale': 2.5, 'kind': kind}
    if kind == 'unscaled':
        channel |= {'scale': 1.0, 'kind': 'current'}
    config = CalibrationConfig.model_validate(
        {
            'model': Path('arm.xml'),
            'bags': [{'path': 'bag'}],
            'mapping': {'sensors': {'q': '/js.position[j]', 'tau': channel}},
            'parameters': [{'target': 'joint/j/damping'}],
            **more,
        }
    )
    spec = mujoco.MjSpec.from_string(MODEL)
    found = parameters_of(config, spec.compile(), spec)
    most = {
        f'{t.name}/{t.attribute}': unknown.max_value for unknown in found for t in unknown.targets
    }
    assert most == names


@pytest.mark.parametrize(
    ('sensors', 'base', 'refused'),
    [
        ([], 'free', True),
        (['q'], 'free', True),
        (['place'], 'free', False),
        ([], 'fixed', False),
    ],
)
def test_a_base_that_nothing_measures_is_refused(
    sensors: list[str], base: str, refused: bool
) -> None:
    text = MODEL.replace('<body>', f'<body name="trunk"><freejoint/>{TRUNK}<body>')
    text = text.replace('</body>', '</body></body>')
    place = '<framepos name="place" objtype="body" objname="trunk"/></sensor>'
    model = mujoco.MjModel.from_xml_string(text.replace('</sensor>', place))
    pairs = tuple(Pair(PairRole.SENSOR, name, '/topic', 'field', '', 1.0, 0.0) for name in sensors)
    expected = pytest.raises(FitError, match=r"'trunk' floats .* say base: fixed")
    with expected if refused else contextlib.nullcontext():
        problem.check_base(model, Mapping(pairs, (), ()), base)


def test_a_free_body_beside_the_robot_is_no_base() -> None:
    ball = f'</body><body><freejoint/>{TRUNK}</body>'
    model = mujoco.MjModel.from_xml_string(MODEL.replace('</body>', ball))
    assert not problem.floating_bases(model, ())


def _bag(name: str, **sources: StampSource) -> CalibrationBag:
    stamps = tuple((f'/{topic}', source) for topic, source in sources.items())
    return CalibrationBag(Path(name), 'train', Alignment(name, (), (), (), (), (), stamps))


def test_topics_that_are_timed_in_another_way_in_some_bags_are_found() -> None:
    bags = [
        _bag('a', js='header', cmd='sent'),
        _bag('b', js='receive', cmd='receive'),
        _bag('c', js='header', cmd='receive'),
    ]
    (finding,) = unlike_stamps(bags)
    assert (finding.subject, finding.count) == ('/js', 2)
    assert finding.detail.startswith('header in a, c; receive in b; no delay is right for all')
    assert list(unlike_stamps(bags[::2])) == []


@pytest.mark.parametrize(
    ('more', 'compared'),
    [
        ({}, {'j_position'}),
        ({'sensors': ['j_position', 'j_velocity']}, {'j_position'}),
        ({'sensors': ['j_velocity']}, {'j_velocity'}),
        ({'parameters': [{'target': 'sensor/j_velocity/delay'}]}, {'j_position', 'j_velocity'}),
    ],
)
def test_velocities_that_a_driver_filters_are_not_compared(
    columns: Any, monkeypatch: Any, tmp_path: Path, more: dict[str, Any], compared: set[str]
) -> None:
    times = np.arange(0, 10, 0.01)
    fields = {
        'position': {'j': np.sin(3 * times) + np.sin(5 * times)},
        'velocity': {'j': 3 * np.cos(3 * times - 0.09) + 5 * np.cos(5 * times - 0.15)},
    }
    bag = columns.bag(columns.topic('/joint_states', times, fields))
    monkeypatch.setattr(problem, 'read_columns', lambda *_: bag)
    (tmp_path / 'run').mkdir()
    body = MODEL.partition('<sensor>')[0]
    (tmp_path / 'arm.xml').write_text(f'{body}</mujoco>')
    config = CalibrationConfig.model_validate(
        {
            'model': tmp_path / 'arm.xml',
            'bags': [{'path': str(tmp_path / 'run')}],
            'parameters': [{'target': 'joint/j/damping'}],
            **more,
        }
    )
    (sequence,) = problem.load(config, Nobody()).sequences('train')
    assert {name for series in sequence.measurements for name in series.names} == compared


def test_bags_that_end_before_the_longest_delay_are_left_out(tmp_path: Path) -> None:
    for name, count in {'short': 12, 'long': 100, 'also_short': 12}.items():
        rows = [f'{0.02 * k},{np.sin(0.1 * k)},{np.sin(0.1 * k)}' for k in range(count)]
        text = '\n'.join(['t,j_pos,cmd_j_pos', *rows])
        (tmp_path / f'{name}.csv').write_text(text, encoding='utf-8')
    body = MODEL.partition('<sensor>')[0]
    servo = '<actuator><position joint="j" name="a" kp="10" kv="1"/></actuator>'
    (tmp_path / 'arm.xml').write_text(f'{body}{servo}</mujoco>', encoding='utf-8')

    def of(*names: str) -> CalibrationConfig:
        return CalibrationConfig.model_validate(
            {
                'model': tmp_path / 'arm.xml',
                'bags': [{'path': str(tmp_path / f'{name}.csv')} for name in names],
                'parameters': [{'target': 'actuator/a/delay', 'bounds': [0, 0.3]}],
            }
        )

    found = problem.load(of('short', 'long', 'also_short'), Nobody())
    assert [each.name for each in found.sequences('train')] == ['long.csv']
    (note,) = found.notes
    assert note.startswith("2 of 3 bags are left out: Expected 5 or more measured instants in 'sho")
    assert '0.3 s have passed' in note
    with pytest.raises(AlignmentError, match="in 'short"):
        problem.load(of('short', 'also_short'), Nobody())
