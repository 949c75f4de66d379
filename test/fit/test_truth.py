# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Data that a model made itself, in a plain loop, give back the number it was made with.

A mark ``{path|nominal|truth}`` in a model below is the number that a target writes: the plant is
compiled from the text with the truth in its place, the fit starts from the text with the nominal
number. So the plant shares no code with what is tested but MuJoCo.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from sysid_ros import identification as sysid
from sysid_ros.errors import FitError
from sysid_ros.model.kinds import KINDS, Role

STARTS = (0.0, 0.3, 1.7e9)
PRECISION = 1e-6
MARK = re.compile(r'\{([^|{}]+)\|([^|{}]+)\|([^|{}]+)\}')
#: Two joints with everything that a joint can have, driven by every sort of actuator.
ARM = """
<mujoco>
  <compiler angle="radian"/>
  <option timestep="0.005" integrator="implicitfast"
          gravity="{option/gravity[0]|0|.5} {option/gravity[1]|0|.4} {option/gravity[2]|-9.81|-8}"/>
  <default>
    <default class="stiff"><joint stiffness="{default/stiff/joint/stiffness|.5|1.2}"/></default>
    <default class="light"><geom density="{default/light/geom/density|900|700}"/></default>
  </default>
  <worldbody>
    <body name="upper">
      <joint name="j" axis="0 1 0" class="stiff" frictionloss="{joint/j/frictionloss|.2|.35}"
             springref="{joint/j/springref|0|.3}" ref="{joint/j/ref|0|.2}"
             damping="{joint/j/damping|.3|.55} {joint/j/damping[1]|.1|.2} {joint/j/damping[2]|0|.1}"
             armature="{joint/j/armature|.05|.09}"/>
      <geom type="capsule" fromto="0 0 0 .3 0 0" size=".02" mass="{geom/bar/mass|1|1.3}"
            name="bar" contype="0"/>
      <body name="lower" pos="{body/lower/pos[0]|.3|.34} 0 {body/lower/pos[2]|0|.02}"
            axisangle="0 1 0 {body/lower/quat[1]|0|.2}">
        <inertial pos="{body/lower/ipos[0]|.1|.12} 0 {body/lower/ipos[2]|0|.03}"
                  mass="{body/lower/mass|.5|.8}" diaginertia=".001 .004 .004"/>
        <joint name="k" axis="0 1 0" ref="{joint/k/zero|0|.1}" armature=".01" damping=".2"
               stiffness="{joint/k/stiffness|1|2} {joint/k/stiffness[1]|.5|.8}
                 {joint/k/stiffness[2]|0|.3}"
               pos="{joint/k/pos[0]|0|.01} 0 {joint/k/pos[2]|0|-.02}"/>
        <geom name="tool" size=".02 .05" type="capsule" contype="0"/>
        <site name="tip" pos=".2 0 0"/>
      </body>
    </body>
    <body name="slider" pos="0 2 0" gravcomp="{body/slider/gravcomp|0|.6}">
      <joint name="s" type="slide" axis="0 .3 1" damping="1" stiffness="40"/>
      <geom name="ball" class="light" type="sphere" size="{geom/ball/size|.06|.07}" contype="0"/>
      <geom name="shell" density="{geom/shell/density|500|600}" size=".05" contype="0"/>
    </body>
  </worldbody>
  <actuator>
    <motor name="a" joint="j" gear="{actuator/a/gear|3|2}"/>
    <position name="b" joint="k" kp="{actuator/b/kp|8|12}" kv="{actuator/b/kv|.4|.7}"/>
    <velocity name="w" joint="k" kv="{actuator/w/kv|.1|.2}"/>
    <general name="g" joint="j" dyntype="filter" dynprm="{actuator/g/dynprm|.05|.1}"
             biastype="affine" gaintype="affine"
             gainprm="{actuator/g/gainprm|1|2} {actuator/g/gainprm[1]|0|.2}
                      {actuator/g/gainprm[2]|0|.1}"
             biasprm="{actuator/g/biasprm|0|.3} {actuator/g/biasprm[1]|-.5|-1}
                      {actuator/g/biasprm[2]|-.1|-.25}"/>
    <pid name="p" joint="s" kp="20" kv="2" ki="{actuator/p/ki|30|40}"/>
    <motor name="push" joint="s" gear="4" armature="{actuator/push/armature|.005|.01}"
           damping="{actuator/push/damping|.01|.04} {actuator/push/damping[1]|.01|.02}"/>
  </actuator>
  <sensor>
    <jointpos name="q" joint="j"/><jointvel name="v" joint="j"/>
    <jointpos name="p" joint="k"/><jointvel name="u" joint="k"/>
    <jointpos name="x" joint="s"/><jointvel name="y" joint="s"/>
  </sensor>
</mujoco>
"""
#: Sliders that are pushed against limits of force, command, activation and travel.
LIMITS = """
<mujoco>
  <option timestep="0.005" integrator="implicitfast" gravity="0 0 0"/>
  <default><geom size=".05" mass=".5" contype="0"/><joint type="slide" axis="1 0 0" damping="2"/>
    <default class="soft">
      <joint armature="{default/soft/joint/armature|.1|.2}"/>
      <general gainprm="{default/soft/actuator/gainprm|5|7}"/>
    </default>
  </default>
  <worldbody>
    <body><joint name="s1" actuatorfrcrange="{joint/s1/actuatorfrcrange[0]|-1|-.8}
                                             {joint/s1/actuatorfrcrange[1]|1|1.3}"/><geom/></body>
    <body><joint name="s2"/><geom/></body>
    <body><joint name="s3" class="soft"/><geom/></body>
    <body><joint name="s4" class="soft"/><geom/></body>
    <body><joint name="s5" damping="20" range="{joint/s5/range[0]|-.1|-.12}
      {joint/s5/range[1]|.1|.08}"
      margin="{joint/s5/margin|.01|.02}"
      solreflimit="{joint/s5/solreflimit[0]|.05|.07} {joint/s5/solreflimit[1]|1|.7}"
      solimplimit="{joint/s5/solimplimit[0]|.5|.6} {joint/s5/solimplimit[1]|.9|.8}
        {joint/s5/solimplimit[2]|.01|.02} {joint/s5/solimplimit[3]|.5|.4}
        {joint/s5/solimplimit[4]|2|3}"/><geom/></body>
    <body><joint name="s6" frictionloss="2"
      solreffriction="{joint/s6/solreffriction[0]|.05|.07} 1"
      solimpfriction="{joint/s6/solimpfriction[0]|.9|.7} .95 .01 .5 2"/><geom/></body>
  </worldbody>
  <actuator>
    <motor name="a1" joint="s1" gear="2"/>
    <motor name="a2" joint="s2" gear="2" ctrlrange="{actuator/a2/ctrlrange[0]|-.4|-.5}
                                                    {actuator/a2/ctrlrange[1]|.4|.5}"/>
    <general name="a3" joint="s3" class="soft" dyntype="integrator" actlimited="true"
             actrange="{actuator/a3/actrange[0]|-.1|-.08} {actuator/a3/actrange[1]|.1|.12}"/>
    <general name="a4" joint="s4" class="soft" forcerange="{actuator/a4/forcerange[0]|-1|-1.3}
                                                           {actuator/a4/forcerange[1]|1|1.2}"/>
    <motor name="a5" joint="s5" gear="16"/>
    <motor name="a6" joint="s6" gear="3"/>
  </actuator>
  <sensor>
    <jointvel name="v1" joint="s1"/><jointvel name="v2" joint="s2"/><jointvel name="v3" joint="s3"/>
    <jointvel name="v4" joint="s4"/><jointvel name="v5" joint="s5"/><jointvel name="v6" joint="s6"/>
  </sensor>
</mujoco>
"""
#: Tendons between sliders and hinges.
TENDONS = """
<mujoco>
  <compiler angle="radian"/>
  <option timestep="0.005" integrator="implicitfast" gravity="0 0 0"/>
  <default><geom size=".05" mass=".5" contype="0"/><joint type="slide" axis="0 0 1" damping=".5"/>
    <default class="cord"><tendon damping="{default/cord/tendon/damping|1|2}"/></default></default>
  <worldbody>
    <site name="anchor" pos="0 {site/anchor/pos[1]|.1|.12} 1"/>
    <body name="b1" pos="0 0 .5"><joint name="s1" damping="5"/><geom/><site name="hook"/></body>
    <body name="b2" pos="1 0 0"><joint name="s2"/><geom/></body>
    <body name="b3" pos="2 0 0"><joint name="s3" stiffness="30"/><geom/></body>
    <body name="b4" pos="3 0 0"><joint name="s4"/><geom/></body>
  </worldbody>
  <tendon>
    <spatial name="spring" class="cord" stiffness="{tendon/spring/stiffness|40|60}
        {tendon/spring/stiffness[1]|0|30} {tendon/spring/stiffness[2]|0|50}"
        springlength="{tendon/spring/springlength[0]|.55|.52}
                      {tendon/spring/springlength[1]|.56|.58}">
      <site site="anchor"/><site site="hook"/></spatial>
    <fixed name="damper" damping="{tendon/damper/damping|.5|1} {tendon/damper/damping[1]|.1|.3}
        {tendon/damper/damping[2]|0|.2}" armature="{tendon/damper/armature|.1|.3}"
        frictionloss="{tendon/damper/frictionloss|.2|.4}"
        solreffriction="{tendon/damper/solreffriction[0]|.05|.07} 1"
        solimpfriction="{tendon/damper/solimpfriction[0]|.9|.7} .95 .01 .5 2">
      <joint joint="s2" coef="1"/></fixed>
    <fixed name="stop" range="{tendon/stop/range[0]|-.05|-.06} {tendon/stop/range[1]|.05|.04}"
        margin="{tendon/stop/margin|.001|.005}"
        solreflimit="{tendon/stop/solreflimit[0]|.05|.07} {tendon/stop/solreflimit[1]|1|.7}"
        solimplimit="{tendon/stop/solimplimit[0]|.5|.6} {tendon/stop/solimplimit[1]|.9|.8}
          {tendon/stop/solimplimit[2]|.01|.02} {tendon/stop/solimplimit[3]|.5|.4}
          {tendon/stop/solimplimit[4]|2|3}"><joint joint="s3" coef="1"/></fixed>
    <fixed name="pulled" actuatorfrcrange="{tendon/pulled/actuatorfrcrange[0]|-.6|-.8}
        {tendon/pulled/actuatorfrcrange[1]|.6|.8}"><joint joint="s4" coef="1"/></fixed>
  </tendon>
  <actuator>
    <motor name="a1" joint="s1" gear="8"/><motor name="a2" joint="s2" gear="2"/>
    <motor name="a3" joint="s3" gear="6"/><motor name="a4" tendon="pulled" gear="2"/>
  </actuator>
  <sensor>
    <jointvel name="v1" joint="s1"/><jointvel name="v2" joint="s2"/><jointvel name="v3" joint="s3"/>
    <jointvel name="v4" joint="s4"/><tendonpos name="length" tendon="spring"/>
  </sensor>
</mujoco>
"""
#: Mechanisms closed by equality constraints.
EQUALITIES = """
<mujoco>
  <compiler angle="radian"/>
  <option timestep="0.005" integrator="implicitfast" gravity="0 0 -9.81"/>
  <default><geom size=".05" mass=".5" contype="0"/><joint damping=".05"/></default>
  <worldbody>
    <body name="b1"><joint name="h1" axis="0 1 0"/><geom pos=".2 0 0"/></body>
    <body name="b2" pos="1 0 0"><joint name="h2" axis="0 1 0" stiffness="2"/><geom pos="0 0
      -.2"/></body>
    <body name="b3" pos="2 0 0"><joint name="h3" axis="0 1 0"/><geom pos="0 0 -.2"/>
      <body name="b4" pos="0 0 -.4"><joint name="h4" axis="0 1 0"/><geom pos="0 0
        -.2"/></body></body>
    <body name="b5" pos="3 0 0"><freejoint name="f"/><geom type="box" size=".1 .05 .02"/></body>
    <body name="b6" pos="4 0 0"><joint name="s6" type="slide" axis="0 0 1"/><geom/></body>
    <body name="b7" pos="5 0 0"><joint name="s7" type="slide" axis="0 0 1"
      stiffness="20"/><geom/></body>
  </worldbody>
  <tendon><fixed name="t6"><joint joint="s6" coef="1"/></fixed>
    <fixed name="t7"><joint joint="s7" coef="1"/></fixed></tendon>
  <equality>
    <joint name="mimic" joint1="h1" joint2="h2" polycoef="{equality/mimic/data[0]|0|.1}
        {equality/mimic/data[1]|1|1.3} {equality/mimic/data[2]|0|.2} {equality/mimic/data[3]|0|.1}
        {equality/mimic/data[4]|0|.1}"
      solref="{equality/mimic/solref[0]|.05|.07} {equality/mimic/solref[1]|1|.7}"
      solimp="{equality/mimic/solimp[0]|.5|.6} {equality/mimic/solimp[1]|.9|.8}
        {equality/mimic/solimp[2]|.01|.02} {equality/mimic/solimp[3]|.5|.4}
        {equality/mimic/solimp[4]|2|3}"/>
    <connect name="connect" body1="b4" body2="world" anchor="{equality/connect/data[0]|.05|.02} 0
        {equality/connect/data[2]|-.2|-.15}" solref="{equality/connect/solref[0]|.1|.15} 1"/>
    <weld name="weld" body1="b5" body2="world" solref="{equality/weld/solref[0]|.1|.15} 1"
        anchor="{equality/weld/data[0]|.02|.04} 0 .01"
        torquescale="{equality/weld/data[10]|1|.6}"/>
    <tendon name="same" tendon1="t6" tendon2="t7" polycoef="{equality/same/data[0]|0|.05}
        {equality/same/data[1]|1|.8} 0 0 0" solref="{equality/same/solref[0]|.05|.08} 1"/>
  </equality>
  <actuator>
    <motor name="a1" joint="h1"/><motor name="a2" joint="h3"/>
    <motor name="a3" joint="f" gear="2 0 3 0 .3 0"/><motor name="a4" joint="s7" gear="3"/>
  </actuator>
  <sensor>
    <jointpos name="q1" joint="h1"/><jointpos name="q2" joint="h2"/><jointpos name="q3" joint="h3"/>
    <jointpos name="q4" joint="h4"/><framepos name="p" objtype="body" objname="b5"/>
    <framequat name="r" objtype="body" objname="b5"/><jointpos name="q6" joint="s6"/>
    <jointpos name="q7" joint="s7"/>
  </sensor>
</mujoco>
"""
#: Pads that are pressed, pushed, spun and rolled on the ground, and never leave it.
CONTACTS = """
<mujoco>
  <option timestep="0.005" cone="elliptic" gravity="0 0 -50" impratio="{option/impratio|1|3}"/>
  <default><joint type="slide"/><geom size=".05" mass=".5" condim="6"/>
    <default class="flat"><geom conaffinity="0" contype="0"/></default></default>
  <worldbody>
    <geom name="floor" type="plane" size="9 9 .1" friction=".05 .001 .0001"/>
    <body pos="0 0 .049"><joint name="z1" axis="0 0 1"/>
      <geom name="foot" solref="{geom/foot/solref[0]|.04|.05} {geom/foot/solref[1]|1|.8}"
        solimp="{geom/foot/solimp[0]|.5|.6} {geom/foot/solimp[1]|.9|.8}
          {geom/foot/solimp[2]|.01|.02} {geom/foot/solimp[3]|.5|.4} {geom/foot/solimp[4]|2|3}"
        solmix="{geom/foot/solmix|1|2}" margin="{geom/foot/margin|.002|.004}"/></body>
    <body pos="1 0 .05"><joint name="x2" axis="1 0 0"/><joint axis="0 0 1"/>
      <geom name="slipper" friction="{geom/slipper/friction[0]|.2|.3} 0 0"/></body>
    <body pos="2 0 .05"><joint name="r3" type="hinge" armature=".01" axis="0 0 1"/>
      <joint axis="0 0 1"/>
      <geom name="top" friction="1 {geom/top/friction[1]|.01|.02} 0"/></body>
    <body pos="3 0 .05"><joint axis="1 0 0"/><joint axis="0 0 1"/>
      <joint name="r4" type="hinge" armature=".01" axis="0 1 0"/>
      <geom name="wheel" friction="1 0 {geom/wheel/friction[2]|.002|.003}"/></body>
    <body pos="0 1 .049"><joint name="z5" axis="0 0 1"/><geom name="sole" class="flat"/></body>
    <body pos="1 1 .05"><joint name="x6" axis="1 0 0"/><joint name="y6" axis="0 1 0"/>
      <joint axis="0 0 1"/><geom name="skid" class="flat"/></body>
    <body pos="2 1 .05"><joint name="r7" type="hinge" armature=".01" axis="0 0 1"/>
      <joint axis="0 0 1"/>
      <geom name="spindle" class="flat"/></body>
    <body pos="3 1 .05"><joint name="v8" axis="1 0 0"/><joint name="w8" axis="0 1 0"/>
      <joint axis="0 0 1"/><joint name="r8" type="hinge" armature=".01" axis="0 1 0"/>
      <joint name="s8" type="hinge" armature=".01" axis="1 0 0"/><geom name="roller"
        class="flat"/></body>
    <body pos="4 1 .05"><joint name="x9" axis="1 0 0"/><joint axis="0 0 1"/>
      <geom name="brake" class="flat"/></body>
  </worldbody>
  <contact>
    <pair name="press" geom1="sole" geom2="floor"
      solref="{pair/press/solref[0]|.04|.05} {pair/press/solref[1]|1|.8}"
      solimp="{pair/press/solimp[0]|.5|.6} {pair/press/solimp[1]|.9|.8}
        {pair/press/solimp[2]|.01|.02} {pair/press/solimp[3]|.5|.4} {pair/press/solimp[4]|2|3}"
      margin="{pair/press/margin|.002|.004}"/>
    <pair name="slip" geom1="skid" geom2="floor" condim="4"
      friction="{pair/slip/friction[0]|.2|.3} {pair/slip/friction[1]|.25|.35} .001 0 0"/>
    <pair name="spin" geom1="spindle" geom2="floor" condim="4"
      friction="1 1 {pair/spin/friction[2]|.01|.02} 0 0"/>
    <pair name="roll" geom1="roller" geom2="floor" condim="6"
      friction="1 1 .001 {pair/roll/friction[3]|.002|.003} {pair/roll/friction[4]|.003|.004}"/>
    <pair name="hold" geom1="brake" geom2="floor" condim="3" friction="2 2 0 0 0"
      solreffriction="{pair/hold/solreffriction[0]|.04|.06} 1"/>
  </contact>
  <actuator>
    <motor name="m_z1" joint="z1" gear="8"/><motor name="m_x2" joint="x2" gear="8"/>
      <motor name="m_r3" joint="r3" gear=".6"/>
    <motor name="m_r4" joint="r4" gear=".3"/><motor name="m_z5" joint="z5" gear="8"/>
      <motor name="m_x6" joint="x6" gear="8"/>
    <motor name="m_y6" joint="y6" gear="8"/><motor name="m_r7" joint="r7" gear=".6"/>
      <motor name="m_r8" joint="r8" gear=".3"/>
    <motor name="m_s8" joint="s8" gear=".3"/><motor name="a9" joint="x9" gear="8"/>
  </actuator>
  <sensor>
    <jointvel name="v1" joint="z1"/><jointvel name="v2" joint="x2"/><jointvel name="v3" joint="r3"/>
    <jointvel name="v4" joint="r4"/><jointvel name="v5" joint="z5"/><jointvel name="v6" joint="x6"/>
    <jointvel name="u6" joint="y6"/><jointvel name="v7" joint="r7"/><jointvel name="v8" joint="r8"/>
    <jointvel name="u8" joint="s8"/><jointvel name="v9" joint="x9"/>
  </sensor>
</mujoco>
"""
#: A body that flies through a fluid, and its inertial sensors.
FLYER = """
<mujoco>
  <compiler angle="radian"/>
  <option timestep="0.005" integrator="implicitfast" density="{option/density|1.2|3}"
    viscosity="{option/viscosity|.1|.2}" wind="{option/wind[0]|1|1.5} {option/wind[1]|0|.5} 0"
    magnetic="{option/magnetic[0]|0|.1} -.5 {option/magnetic[2]|0|.2}"/>
  <worldbody>
    <body name="drone" pos="0 0 1" quat="1 .1 .2 .3"><freejoint name="free"/>
      <inertial pos=".01 .02 .03" mass="1.5" fullinertia=".03 .025 .02 .001 .002 .003"/>
      <geom name="hull" type="box" size=".2 .1 .05" contype="0"/>
      <site name="imu" pos="{site/imu/pos[0]|.05|.1} {site/imu/pos[1]|0|.05}
        {site/imu/pos[2]|0|-.05}"
        axisangle="1 0 0 {site/imu/quat[0]|0|.3}"/>
      <body name="arm" pos=".2 0 0"><joint name="a" axis="0 1 0" damping=".02" springref=".3"
          stiffness=".2"/>
        <geom type="capsule" size=".02" fromto="0 0 0 .2 0 .1" contype="0" density="500"/></body>
    </body>
  </worldbody>
  <actuator>
    <motor name="f" joint="free" gear="0 0 9 0 0 0"/><motor name="m" joint="free"
      gear="0 0 0 .3 .2 .1"/><motor name="e" joint="a" gear=".1"/>
  </actuator>
  <sensor>
    <accelerometer name="acc" site="imu"/><gyro name="gyro" site="imu"/>
    <magnetometer name="mag" site="imu"/>
    <framepos name="p" objtype="body" objname="drone"/><jointpos name="q" joint="a"/>
  </sensor>
  <keyframe><key qpos="0 0 1 1 .1 .2 .3 .2" qvel="1 0 0 .5 .3 -.4 .1"/></keyframe>
</mujoco>
"""


class Case(NamedTuple):
    """A number that is wrong in the nominal model."""

    model: str
    path: str
    nominal: float
    truth: float


#: A centre of mass and a site that start on the frame of their body.
FRAMES = """
<mujoco>
  <option timestep="0.005" gravity="0 0 0"/>
  <worldbody><body name="b"><freejoint/>
    <inertial pos="{body/b/ipos[0]|0|.02} 0 0" mass="1" diaginertia=".1 .2 .15"/>
    <geom size=".1" contype="0"/><site name="s" pos="0 {site/s/pos[1]|0|.03} 0"/></body></worldbody>
  <sensor><gyro name="g" site="s"/><accelerometer name="a" site="s"/></sensor>
  <keyframe><key qvel="0 0 0 1 2 3"/></keyframe>
</mujoco>
"""
#: The same ground, where one set of numbers holds for all contacts.
OVERRIDE = re.sub(
    r'<option[^>]*>',
    """
  <option timestep="0.005" cone="elliptic" gravity="0 0 -50" o_margin="{option/o_margin|.002|.004}"
    o_solref="{option/o_solref[0]|.02|.03} {option/o_solref[1]|1|.8}"
    o_solimp="{option/o_solimp[0]|.8|.7} {option/o_solimp[1]|.95|.9}
      {option/o_solimp[2]|.005|.004} {option/o_solimp[3]|.5|.4} {option/o_solimp[4]|2|3}"
    o_friction="{option/o_friction[0]|.2|.3} {option/o_friction[1]|.25|.35}
      {option/o_friction[2]|.01|.02} {option/o_friction[3]|.002|.003}
      {option/o_friction[4]|.003|.004}"><flag override="enable"/></option>""",
    MARK.sub(r'\2', CONTACTS),
    count=1,
)
MODELS = {
    'arm': ARM,
    'limits': LIMITS,
    'tendons': TENDONS,
    'equalities': EQUALITIES,
    'contacts': CONTACTS,
    'flyer': FLYER,
    'override': OVERRIDE,
    'frames': FRAMES,
}


def text(model: str, path: str = '') -> str:
    """Return a model with the truth of one path, and the nominal numbers of all others."""

    def number(mark: re.Match[str]) -> str:
        return mark[3] if mark[1] == path else mark[2]

    return MARK.sub(number, MODELS[model])


CASES = [
    Case(name, *(mark[1], float(mark[2]), float(mark[3])))
    for name, marked in MODELS.items()
    for mark in MARK.finditer(marked)
]


class Recording(NamedTuple):
    """What a plain loop wrote down: row k of everything describes the time ``times[k]``."""

    model: mujoco.MjModel
    times: NDArray[np.float64]
    control: NDArray[np.float64]
    sensors: NDArray[np.float64]
    state: NDArray[np.float64]


def commands(model: mujoco.MjModel, steps: int) -> NDArray[np.float64]:
    times = model.opt.timestep * np.arange(steps)[:, None]
    phases = np.arange(model.nu)
    return np.sin(7.3 * times + phases) + 0.6 * np.sin(17.1 * times + 2 * phases)


def run(
    model: mujoco.MjModel,
    *,
    steps: int = 200,
    control: NDArray[np.float64] | None = None,
    state: NDArray[np.float64] | None = None,
) -> Recording:
    """Step a model by hand; its first keyframe, if it has one, is where it starts."""
    data = mujoco.MjData(model)
    if model.nkey:
        mujoco.mj_resetDataKeyframe(model, data, 0)
    full = mujoco.mjtState.mjSTATE_FULLPHYSICS.value
    start = np.empty(mujoco.mj_stateSize(model, full))
    if state is not None:
        mujoco.mj_setState(model, data, state, full)
    mujoco.mj_getState(model, data, start, full)
    control = commands(model, steps) if control is None else control
    rows = []
    for row in control:
        data.ctrl[:] = row
        mujoco.mj_step(model, data)  # evaluates the sensors before it integrates
        rows.append(data.sensordata.copy())
    return Recording(
        model, model.opt.timestep * np.arange(len(control)), control, np.array(rows), start
    )


def sequences(
    spec: mujoco.MjSpec, recording: Recording, start: float = 0.0
) -> list[sysid.ModelSequences]:
    model, stamps = recording.model, recording.times + start
    return [
        sysid.ModelSequences(
            'model',
            spec,
            'run',
            recording.state,
            sysid.TimeSeries.from_control_names(stamps, recording.control, model),
            sysid.TimeSeries.from_names(stamps, recording.sensors, model),
        )
    ]


def bounds(case: Case) -> tuple[float, float]:
    """Return bounds that neither value is on, within what is physical."""
    element, attribute = case.path.split('/')[0], case.path.split('/')[-1].split('[')[0]
    if element == 'default':
        element = case.path.split('/')[-2]
    index = int(case.path[:-1].rpartition('[')[2]) if case.path.endswith(']') else 0
    physical = KINDS[element, attribute].component_bounds(index)
    low, high = sorted((case.nominal, case.truth))
    reach = 2 * (high - low)
    low = low - reach if low <= 0 or physical[0] < 0 > low - reach else max(low - reach, low / 3)
    return max(low, physical[0]), min(high + reach, physical[1])


def fitted(case: Case, start: float = 0.0) -> tuple[float, Any]:
    plant = mujoco.MjModel.from_xml_string(text(case.model, case.path))
    spec = mujoco.MjSpec.from_string(text(case.model))
    params = sysid.ParameterDict()
    params.add(sysid.Parameter('p', case.nominal, *bounds(case), target=case.path))
    fn = sysid.build_residual_fn(models_sequences=sequences(spec, run(plant), start), n_threads=1)
    found, result = sysid.optimize(params, fn, verbose=False)
    return float(found['p'].value[0]), result


@pytest.mark.slow
@pytest.mark.parametrize('case', CASES, ids=lambda case: case.path)
def test_a_number_of_the_model_comes_back(case: Case) -> None:
    found, result = fitted(case)
    assert found == pytest.approx(case.truth, rel=PRECISION)
    assert result.success


#: Kinds that the tests below find, and those that nothing measured can depend on.
ELSEWHERE = {
    *(('body', name) for name in ('inertia', 'mass_scaled', 'mass_ipos', 'mass_ipos_scaled')),
    ('body', 'subtree_mass'),
    *(('actuator', name) for name in ('gain', 'bias', 'delay')),
    *(('sensor', name) for name in ('gain', 'bias', 'delay')),
    *(('sequence', f'initial_{part}') for part in ('qpos', 'qvel', 'turn', 'act')),
    ('sequence', 'arrival_offset'),
    *(('tendon', name) for name in ('play', 'deadband')),
    ('actuator', 'forcelimit'),
    # Of what a controller asks for: test_controllers.py and test_commands.py of the rollouts.
    ('sequence', 'trajectory_offset'),
    *(('sequence', f'update_{what}') for what in ('phase', 'ripple', 'blur')),
    # Of servos: test_driven.py.
    *(key for key, kind in KINDS.items() if kind.role is Role.LAW),
}
WITHOUT_EFFECT = {
    # MuJoCo 4.0: contacts within the gap are listed and have no force.
    ('geom', 'gap'),
    ('pair', 'gap'),
}


def test_every_kind_of_target_is_found_here_or_has_no_effect() -> None:
    parts = [case.path.split('/') for case in CASES if not case.path.startswith('default/')]
    marked = {(path[0], path[-1].split('[')[0]) for path in parts}
    assert set(KINDS) <= marked | ELSEWHERE | WITHOUT_EFFECT
    assert not marked & (ELSEWHERE | WITHOUT_EFFECT)


@pytest.mark.parametrize('path', ['geom/foot/gap', 'pair/press/gap'])
def test_a_gap_is_said_to_move_nothing(path: str) -> None:
    with pytest.raises(FitError, match=r"changes with any parameter \('p'\)"):
        fitted(Case('contacts', path, 0.0, 0.001))


#: One number per sort of joint, body and actuator: no target reads the time itself, but commands,
#: filters and integrators do; delays and states at the start are below.
TIMED = {
    'joint/j/armature',
    'joint/j/ref',
    'body/lower/ipos[0]',
    'actuator/a/gear',
    'actuator/b/kp',
    'actuator/g/dynprm',
    'actuator/p/ki',
}


@pytest.mark.slow
@pytest.mark.parametrize('start', STARTS[1:])
@pytest.mark.parametrize(
    'case', [case for case in CASES if case.path in TIMED], ids=lambda case: case.path
)
def test_the_time_of_the_start_changes_nothing(case: Case, start: float) -> None:
    found, _ = fitted(case, start)
    assert found == pytest.approx(case.truth, rel=PRECISION)


def solved(
    params: sysid.ParameterDict, spec: mujoco.MjSpec, recording: Recording, start: float = 0.0
) -> NDArray[np.float64]:
    fn = sysid.build_residual_fn(models_sequences=sequences(spec, recording, start), n_threads=1)
    found, result = sysid.optimize(params, fn, verbose=False)
    assert result.success
    return found.as_vector()


def one(target: str, value: Any, low: Any, high: Any) -> sysid.ParameterDict:
    params = sysid.ParameterDict()
    params.add(sysid.Parameter('p', value, low, high, target=target))
    return params


#: The inertia of the drone: what its file says, and what a heavier one says.
INERTIA = 'pos=".01 .02 .03" mass="1.5" fullinertia=".03 .025 .02 .001 .002 .003"'
SCALED = INERTIA.replace('1.5', '1.95').replace(
    '.03 .025 .02 .001 .002 .003"', '.039 .0325 .026 .0013 .0026 .0039"'
)
MOVED = 'pos=".02 .01 .04"'


@pytest.mark.parametrize(
    ('path', 'truth', 'value'),
    [
        ('body/drone/mass_scaled', SCALED, [1.95]),
        (
            'body/drone/mass_ipos',
            MOVED + INERTIA[17:].replace('1.5', '1.9'),
            [1.9, 0.02, 0.01, 0.04],
        ),
        ('body/drone/mass_ipos_scaled', MOVED + SCALED[17:], [1.95, 0.02, 0.01, 0.04]),
    ],
)
def test_masses_that_take_other_numbers_along_come_back(
    path: str, truth: str, value: list[float]
) -> None:
    plant = mujoco.MjModel.from_xml_string(text('flyer').replace(INERTIA, truth))
    first = np.array([1.5, 0.01, 0.02, 0.03])[: len(value)]
    params = one(path, first, first - 0.9, first + 0.9)
    spec = mujoco.MjSpec.from_string(text('flyer'))
    assert solved(params, spec, run(plant)) == pytest.approx(value, rel=PRECISION)


def test_a_factor_on_a_subtree_comes_back() -> None:
    heavy = text('flyer').replace(INERTIA, SCALED).replace('density="500"', 'density="650"')
    plant = mujoco.MjModel.from_xml_string(heavy)
    spec = mujoco.MjSpec.from_string(text('flyer'))
    found = solved(one('body/drone/subtree_mass', 1.0, 0.5, 2.0), spec, run(plant))
    assert found == pytest.approx([1.3], rel=PRECISION)


@pytest.mark.slow
@pytest.mark.parametrize('start', STARTS)
def test_ten_numbers_of_inertia_come_back(start: float) -> None:
    """The pseudo-inertia UUᵀ of what was found is that of the plant (Rucker & Wensing 2022)."""
    truth = MOVED + ' mass="1.8" fullinertia=".036 .031 .024 -.002 .003 .001"'
    plant = mujoco.MjModel.from_xml_string(text('flyer').replace(INERTIA, truth))
    spec = mujoco.MjSpec.from_string(text('flyer'))
    params = sysid.ParameterDict()
    params.add(
        sysid.body_inertia_param(spec, spec.copy().compile(), 'drone', sysid.InertiaType.Pseudo)
    )
    theta = solved(params, spec, run(plant), start)
    alpha, d1, d2, d3, s12, s23, s13, t1, t2, t3 = theta
    factor = np.exp(alpha) * np.array(
        [[np.exp(d1), s12, s13, t1], [0, np.exp(d2), s23, t2], [0, 0, np.exp(d3), t3], [0, 0, 0, 1]]
    )
    pseudo = factor @ factor.T
    com = np.array([0.02, 0.01, 0.04])
    inertia = np.array([[0.036, -0.002, 0.003], [-0.002, 0.031, 0.001], [0.003, 0.001, 0.024]])
    about_com = 0.5 * np.trace(inertia) * np.eye(3) - inertia
    second = about_com + 1.8 * np.outer(com, com)
    expected = 1.8 * np.block([[second / 1.8, com[:, None]], [com[None, :], np.ones((1, 1))]])
    np.testing.assert_allclose(pseudo, expected, rtol=PRECISION)


#: A motor, and a link that follows its rotor by a gear with play and a spring with a dead band.
AROUND_ZERO = """
<mujoco>
  <option timestep="0.005" gravity="0 0 0"/>
  <worldbody>
    <body><joint name="rotor" axis="0 1 0"/><geom size=".1" mass="1" contype="0"/></body>
    <body pos="0 1 0"><joint name="link" axis="0 1 0" damping=".01"/>
      <geom size=".1" mass="2" contype="0"/></body>
  </worldbody>
  <tendon>
    <fixed name="gear" limited="true" range="{play}"><joint joint="rotor" coef="1"/>
      <joint joint="link" coef="-1"/></fixed>
    <fixed name="servo" stiffness="2" springlength="{deadband}"><joint joint="rotor" coef="1"/>
      <joint joint="link" coef="-1"/></fixed>
  </tendon>
  <actuator><motor name="m" joint="rotor" gear=".5" forcerange="{forcelimit}"/></actuator>
  <sensor><jointpos name="r" joint="rotor"/><jointpos name="q" joint="link"/></sensor>
</mujoco>
"""


@pytest.mark.parametrize('start', STARTS)
@pytest.mark.parametrize(
    ('path', 'truth', 'written'),
    [
        ('tendon/gear/play', 0.5, '-.25 .25'),
        ('tendon/servo/deadband', 0.3, '-.15 .15'),
        ('actuator/m/forcelimit', 0.6, '-.6 .6'),
    ],
)
def test_a_range_around_zero_comes_back(
    start: float, path: str, truth: float, written: str
) -> None:
    nominal = {'play': '-.2 .2', 'deadband': '-.1 .1', 'forcelimit': '-9 9'}
    plant = AROUND_ZERO.format(**(nominal | {path.rpartition('/')[2]: written}))
    recording = run(mujoco.MjModel.from_xml_string(plant))
    spec = mujoco.MjSpec.from_string(AROUND_ZERO.format(**nominal))
    first = {'play': 0.4, 'deadband': 0.2, 'forcelimit': 0.5}[path.rpartition('/')[2]]
    found = solved(one(path, first, 0.01, 1.0), spec, recording, start)
    assert found == pytest.approx([truth], rel=PRECISION)


@pytest.mark.slow
@pytest.mark.parametrize('start', STARTS)
@pytest.mark.parametrize(
    ('what', 'change', 'value', 'low', 'high'),
    [
        ('gain', lambda u, _: 0.7 * u, 0.7, 0.1, 3.0),
        ('bias', lambda u, _: u + 0.4, 0.4, -1.0, 1.0),
        ('delay', lambda u, t: held(t, u, 0.0173), 0.0173, 0.0, 0.1),
    ],
)
def test_what_happens_to_commands_comes_back(
    start: float, what: str, change: Any, value: float, low: float, high: float
) -> None:
    model = mujoco.MjModel.from_xml_string(text('arm'))
    control = commands(model, 300)
    column = int(model.actuator_ctrladr[model.actuator('b').id])
    acted = control.copy()
    acted[:, column] = change(control[:, column], 0.005 * np.arange(300))
    recording = run(model, control=acted)._replace(control=control)
    params = one(f'actuator/b/{what}', float(what == 'gain'), low, high)
    spec = mujoco.MjSpec.from_string(text('arm'))
    assert solved(params, spec, recording, start) == pytest.approx([value], rel=PRECISION)


def held(
    times: NDArray[np.float64], values: NDArray[np.float64], delay: float
) -> NDArray[np.float64]:
    """Return the mean over each step of a held command that comes later."""
    step = times[1] - times[0]
    impulse = np.concatenate([[0.0], np.cumsum(values * step)])
    before = np.minimum(times - delay, 0.0) * values[0]
    after = np.minimum(times + step - delay, 0.0) * values[0]
    edges = np.append(times, times[-1] + step)
    from_zero = np.interp(times - delay, edges, impulse) + before
    to = np.interp(times + step - delay, edges, impulse) + after
    return (to - from_zero) / step


def test_the_arrival_of_all_commands_comes_back() -> None:
    model = mujoco.MjModel.from_xml_string(text('arm'))
    control, times = commands(model, 300), 0.005 * np.arange(300)
    acted = np.stack([held(times, column, 0.0123) for column in control.T], axis=1)
    recording = run(model, control=acted)._replace(control=control)
    params = one('sequence/run/arrival_offset', 0.0, -0.02, 0.03)
    found = solved(params, mujoco.MjSpec.from_string(text('arm')), recording)
    assert found == pytest.approx([0.0123], rel=PRECISION)


@pytest.mark.parametrize('start', STARTS)
def test_what_happens_to_readings_comes_back(start: float) -> None:
    model = mujoco.MjModel.from_xml_string(text('flyer'))
    plain = run(model)
    rows = plain.sensors.copy()
    columns = {name: model.sensor(name).adr[0] + np.arange(3) for name in ('acc', 'gyro')}
    rows[:, columns['acc']] = 1.2 * rows[:, columns['acc']]
    rows[:, columns['gyro']] += [0.1, -0.2, 0.05]
    rows[3:, model.sensor('q').adr[0]] = plain.sensors[:-3, model.sensor('q').adr[0]]
    params = sysid.ParameterDict()
    params.add(sysid.Parameter('g', 1.0, 0.1, 3.0, target='sensor/acc/gain'))
    params.add(sysid.Parameter('b', np.zeros(3), -1.0, 1.0, target='sensor/gyro/bias'))
    params.add(sysid.Parameter('d', 0.001, -0.02, 0.05, target='sensor/q/delay'))
    recording = plain._replace(sensors=rows)
    found = solved(params, mujoco.MjSpec.from_string(text('flyer')), recording, start)
    np.testing.assert_allclose(found, [1.2, 0.1, -0.2, 0.05, 0.015], rtol=PRECISION)


@pytest.mark.parametrize('start', STARTS)
def test_states_at_the_start_come_back(start: float) -> None:
    model = mujoco.MjModel.from_xml_string(text('arm'))
    truth = {'qpos': [0.2, -0.1, 0.05], 'qvel': [0.5, -0.3, 0.2], 'act': [0.3, 0.1]}
    state = sysid.create_initial_state(model, *(np.array(part) for part in truth.values()))
    recording = run(model, state=state)._replace(state=0.0 * state)
    params = sysid.ParameterDict()
    for part, values in truth.items():
        zeros = np.zeros(len(values))
        params.add(sysid.Parameter(part, zeros, -1.0, 1.0, target=f'sequence/run/initial_{part}'))
    found = solved(params, mujoco.MjSpec.from_string(text('arm')), recording, start)
    np.testing.assert_allclose(
        found, [x for values in truth.values() for x in values], rtol=PRECISION
    )


@pytest.mark.parametrize('by', ['target', 'modifier'])
def test_a_centre_of_mass_leaves_the_frame_that_it_starts_on(by: str) -> None:
    """MuJoCo takes frames within 1e-6 of each other for one, which would hide the derivative."""

    def write(spec: mujoco.MjSpec, parameter: sysid.Parameter) -> None:
        spec.body('b').ipos[0] = parameter.value[0]

    how: dict[str, Any] = {'target': 'body/b/ipos[0]'} if by == 'target' else {'modifier': write}
    params = sysid.ParameterDict()
    params.add(sysid.Parameter('p', 0.0, -0.1, 0.1, **how))
    nominal = MARK.sub(r'\2', FRAMES)
    plant = mujoco.MjModel.from_xml_string(
        nominal.replace('<inertial pos="0', '<inertial pos=".02')
    )
    found = solved(params, mujoco.MjSpec.from_string(nominal), run(plant))
    assert found == pytest.approx([0.02], rel=PRECISION)


def test_a_class_is_written_to_its_elements_also_beside_visuals() -> None:
    xml = """
    <mujoco><option timestep="0.005"/>
      <default><default class="light"><geom density="{d}"/></default></default>
      <worldbody><body name="b"><inertial pos="0 0 0" mass=".1" diaginertia="1e-3 1e-3 1e-3"/>
        <joint name="j" type="slide" stiffness="30"/>
        <geom size=".05" contype="0" conaffinity="0" group="2"/>
        <body><geom class="light" size=".06" contype="0"/></body></body></worldbody>
      <sensor><jointpos name="q" joint="j"/></sensor></mujoco>
    """
    plant = mujoco.MjModel.from_xml_string(xml.replace('{d}', '700'))
    spec = mujoco.MjSpec.from_string(xml.replace('{d}', '900'))
    params = one('default/light/geom/density', 900.0, 300.0, 2000.0)
    assert solved(params, spec, run(plant)) == pytest.approx([700.0], rel=PRECISION)


def test_a_sensors_target_acts_beside_a_transform() -> None:
    recording = run(mujoco.MjModel.from_xml_string(text('arm')))
    rows = recording.sensors.copy()
    rows[:, 0], rows[:, 2] = 1.3 * rows[:, 0], rows[:, 2] + 0.2
    params = one('sensor/q/gain', 1.0, 0.1, 3.0)
    params.add(sysid.Parameter('bias', 0.0, -1.0, 1.0))
    transform = sysid.SignalTransform()
    transform.bias('p', params['bias'], target='predicted')
    groups = sequences(mujoco.MjSpec.from_string(text('arm')), recording._replace(sensors=rows))
    fn = sysid.build_residual_fn(models_sequences=groups, modify_residual=transform.apply)
    found, _ = sysid.optimize(params, fn, verbose=False)
    np.testing.assert_allclose(found.as_vector(), [1.3, 0.2], rtol=PRECISION)
