# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0

# find_package(sysid_ros) gives packages of CMake the function
#
#   add_sysid_check(NAME THRESHOLDS FILE [TIMEOUT SECONDS])
#   add_sysid_check(NAME CALIBRATION FILE BASELINE FILE [TIMEOUT SECONDS])
#
# which adds a test that runs `sysid evaluate` or `sysid check`. Paths are relative to the folder of
# the CMakeLists.txt. What was found is where `colcon test-result` and ament look for it:
# <build>/test_results/<project>/NAME.xunit.xml.

# Where colcon installs the command; that of pip is on the PATH.
find_program(SYSID_EXECUTABLE sysid HINTS "${CMAKE_CURRENT_LIST_DIR}/../../../lib/sysid_ros")

function(add_sysid_check name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "THRESHOLDS;CALIBRATION;BASELINE;TIMEOUT" "")
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "add_sysid_check(${name}): unknown arguments ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  if(ARG_THRESHOLDS AND NOT ARG_CALIBRATION AND NOT ARG_BASELINE)
    set(command evaluate --thresholds "${ARG_THRESHOLDS}")
  elseif(ARG_CALIBRATION AND ARG_BASELINE AND NOT ARG_THRESHOLDS)
    set(command check "${ARG_CALIBRATION}" --baseline "${ARG_BASELINE}")
  else()
    message(FATAL_ERROR
      "add_sysid_check(${name}): expected THRESHOLDS, or CALIBRATION and BASELINE")
  endif()
  if(NOT SYSID_EXECUTABLE)
    message(FATAL_ERROR "add_sysid_check(${name}): expected the command sysid on the PATH")
  endif()
  set(results "${CMAKE_BINARY_DIR}/test_results/${PROJECT_NAME}")
  file(MAKE_DIRECTORY "${results}")
  add_test(
    NAME ${name}
    COMMAND "${SYSID_EXECUTABLE}" ${command} --junit "${results}/${name}.xunit.xml"
    WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
  if(ARG_TIMEOUT)
    set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT})
  endif()
endfunction()
