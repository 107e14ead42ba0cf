# Files written from the tables (ops, commands) and kept in git: `gen` rewrites them, `check-gen` tells whether they are current.
# tools/gen.c writes each file, at its path in the tree, below its argument.
if(NOT EXISTS ${CMAKE_SOURCE_DIR}/tools/gen.c)
    return()
endif()
add_executable(dlgen tools/gen.c)
target_include_directories(dlgen PRIVATE libcore ${CMAKE_BINARY_DIR}/gen)
target_link_libraries(dlgen PRIVATE ${DLSHELL} ${DLCORE_INSIDE})
set_target_properties(dlgen PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tools)

add_custom_target(gen COMMAND dlgen ${CMAKE_SOURCE_DIR} VERBATIM)
add_custom_target(check-gen COMMAND ${CMAKE_SOURCE_DIR}/tools/check_gen $<TARGET_FILE:dlgen> ${CMAKE_SOURCE_DIR} VERBATIM)
if(DLSH_TESTS)
    enable_testing()
    add_test(NAME check/generated COMMAND ${CMAKE_SOURCE_DIR}/tools/check_gen $<TARGET_FILE:dlgen> ${CMAKE_SOURCE_DIR})
    set_tests_properties(check/generated PROPERTIES LABELS check)
endif()
