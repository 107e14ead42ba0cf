# What `cmake --install` lays down: the library, its header, pkg-config and CMake package files, dlsh and its manual page.
include(CMakePackageConfigHelpers)

install(TARGETS dlcore EXPORT dlcore LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES libcore/include/dlcore.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET dlsh)
    install(TARGETS dlsh RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(FILES docs/dlsh.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)

# dlcore.pc finds its prefix from its own place, so an installed tree can be moved.
file(RELATIVE_PATH PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(cmake/dlcore.pc.in dlcore.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/dlcore.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/dlcore)
install(EXPORT dlcore FILE dlcoreConfig.cmake NAMESPACE dlcore:: DESTINATION ${PACKAGE_DIR})
write_basic_package_version_file(dlcoreConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/dlcoreConfigVersion.cmake DESTINATION ${PACKAGE_DIR})
