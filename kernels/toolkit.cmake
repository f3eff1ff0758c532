# The CUDA toolkit, where there is one. Sets
#   KV_NVCC                the compiler, or KV_NVCC-NOTFOUND
#   KV_CUBIN_ARCHITECTURES the architectures that the course looks at and this nvcc knows: 75;80;...
#   KV_GPU_KERNELS         whether the kernels are compiled to run on a GPU; then CUDA is a language
#                          of the project
#   KV_NVCC_HOST_COMPILER  empty, or what nvcc must take in the place of g++
# A macro, because a language must be enabled in the folder that everything else is under.
set(KV_CUDA AUTO CACHE STRING
  "Compile the kernels for GPUs: ON, OFF, or AUTO = where nvcc and a GPU are")
set_property(CACHE KV_CUDA PROPERTY STRINGS AUTO ON OFF)
set(KV_CUDA_ARCHITECTURES "" CACHE STRING
  "Architectures to compile for, e.g. 80;90. Empty: the GPU that is here, else all known")

include(CheckLanguage)

macro(kv_find_toolkit)
  find_program(KV_NVCC nvcc
    HINTS ENV CUDACXX ENV CUDA_PATH ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin)
  # CUDACXX names the compiler itself, as it does for CMake.
  if(DEFINED ENV{CUDACXX} AND EXISTS "$ENV{CUDACXX}")
    set(KV_NVCC "$ENV{CUDACXX}" CACHE FILEPATH "nvcc" FORCE)
  endif()

  set(KV_CUBIN_ARCHITECTURES)
  if(KV_NVCC)
    execute_process(COMMAND ${KV_NVCC} --list-gpu-code
      OUTPUT_VARIABLE kv_known_codes ERROR_QUIET RESULT_VARIABLE kv_nvcc_status)
    string(REPLACE "\n" ";" kv_known_codes "${kv_known_codes}")
    foreach(kv_architecture IN ITEMS 75 80 86 89 90 100 120)
      if("sm_${kv_architecture}" IN_LIST kv_known_codes)
        list(APPEND KV_CUBIN_ARCHITECTURES ${kv_architecture})
      endif()
    endforeach()
  endif()

  # nvcc asks for g++; clang will do where that is missing.
  set(KV_NVCC_HOST_COMPILER)
  find_program(KV_GXX g++)
  if(NOT KV_GXX)
    set(KV_NVCC_HOST_COMPILER ${CMAKE_CXX_COMPILER})
    set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
  endif()

  # A toolkit on a machine without a GPU would only cost build time.
  kv_gpu_is_here(kv_gpu_here)
  set(KV_GPU_KERNELS OFF)
  if(KV_CUDA STREQUAL "AUTO")
    if(KV_NVCC AND kv_gpu_here)
      set(ENV{CUDACXX} ${KV_NVCC})
      check_language(CUDA)
      if(CMAKE_CUDA_COMPILER)
        set(KV_GPU_KERNELS ON)
      else()
        message(WARNING "${KV_NVCC} does not work here: building without GPU kernels. "
          "-DKV_CUDA=ON shows why")
      endif()
    endif()
  elseif(KV_CUDA)
    if(NOT KV_NVCC)
      message(FATAL_ERROR "KV_CUDA is ON, and there is no nvcc: put it on PATH or into CUDACXX")
    endif()
    set(KV_GPU_KERNELS ON)
  endif()

  if(KV_GPU_KERNELS)
    if(KV_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES ${KV_CUDA_ARCHITECTURES})
    elseif(kv_gpu_here)
      set(CMAKE_CUDA_ARCHITECTURES native)
    else()
      set(CMAKE_CUDA_ARCHITECTURES ${KV_CUBIN_ARCHITECTURES})
    endif()
    set(CMAKE_CUDA_COMPILER ${KV_NVCC})
    enable_language(CUDA)
    # Debian 12's CMake 3.25.1 does not know nvcc's flag; later versions set these themselves.
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_EXTENSIONS OFF)
    message(STATUS "GPU kernels: sm_${CMAKE_CUDA_ARCHITECTURES} by ${KV_NVCC}")
  elseif(KV_NVCC)
    message(STATUS "GPU kernels: not compiled (KV_CUDA=${KV_CUDA}); ${KV_NVCC} can")
  endif()
endmacro()

# Sets the variable to whether the driver sees a GPU.
function(kv_gpu_is_here result)
  set(found FALSE)
  if(EXISTS /dev/nvidia0)
    set(found TRUE)
  else()
    find_program(KV_NVIDIA_SMI nvidia-smi)
    if(KV_NVIDIA_SMI)
      execute_process(COMMAND ${KV_NVIDIA_SMI} -L
        OUTPUT_VARIABLE listing ERROR_QUIET RESULT_VARIABLE status)
      if(status EQUAL 0 AND listing MATCHES "GPU 0")
        set(found TRUE)
      endif()
    endif()
  endif()
  set(${result} ${found} PARENT_SCOPE)
endfunction()
