# Writes OUT with the commit that SOURCE has checked out, or "unknown" without git. Run by the zeroulp_commit target.
execute_process(COMMAND git -C ${SOURCE} rev-parse --short=12 HEAD
  OUTPUT_VARIABLE commit ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
if(failed)
  set(commit unknown)
endif()
set(text "#pragma once\ninline constexpr const char* kCommit = \"${commit}\";\n")
if(EXISTS ${OUT})
  file(READ ${OUT} old)
endif()
if(NOT "${text}" STREQUAL "${old}")
  file(WRITE ${OUT} "${text}")
endif()
