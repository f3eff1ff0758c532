# kv_emulated_kernels(NAME sources...): the same .cu files as two static libraries,
#   NAME_emulated  in namespace kv::emulated, fast
#   NAME_checked   in namespace kv::checked, every memory access checked and counted
#
# A small C++ file includes each kernel file: so one directory can also give it to nvcc, for which
# the file's language must stay CUDA.
set(KV_KERNEL_DEBUG -g CACHE STRING "Debug information of the emulated kernels; -g1: lines alone")
function(kv_emulated_kernels name)
  foreach(build emulated checked)
    set(wrappers)
    set(stand_ins ${PROJECT_SOURCE_DIR}/stand_in/${CMAKE_SYSTEM_PROCESSOR}/${name}_${build})
    foreach(source IN LISTS ARGN)
      get_filename_component(path ${source} ABSOLUTE)
      get_filename_component(stem ${source} NAME)
      if(EXISTS ${stand_ins}/${stem}.cpp.o)  # a student's repository: the kernel is an exercise
        list(APPEND wrappers ${stand_ins}/${stem}.cpp.o)
        continue()
      endif()
      set(wrapper ${CMAKE_CURRENT_BINARY_DIR}/${name}_${build}/${stem}.cpp)
      file(CONFIGURE OUTPUT ${wrapper} CONTENT "#include \"${path}\"\n")
      list(APPEND wrappers ${wrapper})
    endforeach()
    add_library(${name}_${build} STATIC ${wrappers})
    # Only for those who link it: the flags of a checked kernel must not be inherited.
    target_link_libraries(${name}_${build} INTERFACE kv_emulator)
    target_include_directories(${name}_${build} PRIVATE
      ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/kernels)
    # Kernels see the same bytes as float4, as words, as pairs of halves; nvcc fuses a * b + c.
    # Debug information: a report names the line. Version 4, since addr2line names the wrong file in
    # some tables of version 5.
    target_compile_options(${name}_${build} PRIVATE
      -fno-strict-aliasing -ffp-contract=fast -gdwarf-4 ${KV_KERNEL_DEBUG})
  endforeach()
  target_link_libraries(${name}_emulated PRIVATE kv_flags)
  target_compile_definitions(${name}_checked PRIVATE KV_EMULATOR_CHECKED)
  # The compiler announces each access to functions of ours; its own runtime is not linked. What
  # would merge accesses is off: a checker should see those that the source makes.
  target_compile_options(${name}_checked PRIVATE
    -Wall -Wextra -Wpedantic -Werror -fno-math-errno $<$<BOOL:${KV_NATIVE}>:-march=native>
    -fsanitize=thread -O1 -fno-tree-vectorize
    -fno-builtin-memcpy -fno-builtin-memset -fno-builtin-memmove)
  if(NOT KV_SANITIZE)
    target_compile_options(${name}_checked PRIVATE
      -fsanitize=$<IF:$<CXX_COMPILER_ID:Clang>,array-bounds,bounds>
      -fno-sanitize-recover=$<IF:$<CXX_COMPILER_ID:Clang>,array-bounds,bounds>)
  endif()
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    target_compile_options(${name}_checked PRIVATE
      "SHELL:-mllvm -tsan-instrument-read-before-write=1"
      "SHELL:-mllvm -tsan-instrument-func-entry-exit=0"
      "SHELL:-mllvm -tsan-instrument-atomics=0")
  else()
    target_compile_options(${name}_checked PRIVATE -fno-tree-loop-distribute-patterns)
  endif()
endfunction()
