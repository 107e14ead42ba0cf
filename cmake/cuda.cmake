# The CUDA plugin: a module of its own, which libdlcore loads on first use. The runtime is linked in; the driver, cuBLASLt
# and cuDNN are loaded when they are needed. It is not linked against libdlcore, see core/device/imports.h.
file(GLOB_RECURSE CUDA_SOURCES CONFIGURE_DEPENDS libcore/cuda/*.c libcore/cuda/*.cu)
add_library(dlcore_cuda MODULE EXCLUDE_FROM_ALL ${CUDA_SOURCES}) # of `product`, not of `all`: it takes minutes
add_dependencies(dlcore_cuda ops_gen)
target_include_directories(dlcore_cuda PRIVATE libcore ${GEN} ${GEN}/bare ${GEN}/include)
target_include_directories(dlcore_cuda SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
target_compile_definitions(dlcore_cuda PRIVATE DL_PLUGIN=1)
set_target_properties(dlcore_cuda PROPERTIES CUDA_STANDARD 17 CUDA_RUNTIME_LIBRARY Static C_VISIBILITY_PRESET hidden
                      CUDA_VISIBILITY_PRESET hidden)
target_compile_options(dlcore_cuda PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:--Werror=all-warnings -Xcompiler=-Wall,-Wextra,-Werror,-Wno-unused-parameter --diag-suppress=186>)
if(DLSH_CUDA_QUICK)
    target_compile_definitions(dlcore_cuda PRIVATE DL_QUICK=1)
    set_target_properties(dlcore_cuda PROPERTIES CUDA_ARCHITECTURES 90-virtual)
    target_compile_options(dlcore_cuda PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-Xcicc=-O0>)
    string(REPLACE "-O3" "-O0" CMAKE_CUDA_FLAGS_RELEASE "${CMAKE_CUDA_FLAGS_RELEASE}") # the code of the host
endif()
# The bits of the CPU's transforms, which are computed without fused products.
set_source_files_properties(${CMAKE_SOURCE_DIR}/libcore/cuda/kernels/batch.cu PROPERTIES COMPILE_OPTIONS -fmad=false)
target_link_libraries(dlcore_cuda PRIVATE Threads::Threads dl)
target_link_options(dlcore_cuda PRIVATE -Wl,-z,defs -static-libgcc -static-libstdc++ -Wl,--exclude-libs,ALL)
find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS}) # headers only
if(CUDNN_INCLUDE_DIR)
    target_compile_definitions(dlcore_cuda PRIVATE DL_HAVE_CUDNN=1)
    target_include_directories(dlcore_cuda SYSTEM PRIVATE ${CUDNN_INCLUDE_DIR})
else()
    message(STATUS "dlsh: cuDNN was not found; convolutions have no CUDA kernels in this build")
endif()
install(TARGETS dlcore_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} OPTIONAL)
