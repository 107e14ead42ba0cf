# What `cmake --install` lays down: the library, its headers, pkg-config and CMake package files; dlsh, its manual page and its
# kernelspec; the manual, the examples and the licence.
include(CMakePackageConfigHelpers)

install(TARGETS dlcore EXPORT dlcore LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${GEN}/include/dlcore.h ${GEN}/include/dlcore_ops.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET dlsh)
    install(TARGETS dlsh RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(FILES docs/dlsh.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs FILES_MATCHING PATTERN *.md)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} USE_SOURCE_PERMISSIONS PATTERN __pycache__ EXCLUDE)

# The kernelspec names dlsh by its name alone, so that an installed tree can be moved: it is found on the PATH.
if(TARGET dlsh)
    install(CODE [[
        set(prefix "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")
        set(dlsh "$<TARGET_FILE:dlsh>")
        execute_process(COMMAND "${dlsh}" kernel install --prefix "${prefix}" OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
        file(READ "${prefix}/share/jupyter/kernels/dlsh/kernel.json" spec)
        file(REAL_PATH "${dlsh}" real)
        string(REPLACE "\"${real}\"" "\"dlsh\"" spec "${spec}")
        file(WRITE "${prefix}/share/jupyter/kernels/dlsh/kernel.json" "${spec}")
    ]])
endif()

# dlcore.pc finds its prefix from its own place, so an installed tree can be moved.
file(RELATIVE_PATH PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(cmake/dlcore.pc.in dlcore.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/dlcore.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/dlcore)
install(EXPORT dlcore FILE dlcoreConfig.cmake NAMESPACE dlcore:: DESTINATION ${PACKAGE_DIR})
write_basic_package_version_file(dlcoreConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/dlcoreConfigVersion.cmake DESTINATION ${PACKAGE_DIR})
