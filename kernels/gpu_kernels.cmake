# kv_gpu_kernels(NAME sources...): the kernel files compiled by nvcc, in namespace kv::gpu.
function(kv_gpu_kernels name)
  add_library(${name} STATIC ${ARGN})
  set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CUDA)
  target_include_directories(${name} PRIVATE
    ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/kernels)
  # Not -Wpedantic: it dislikes the line directives in what nvcc hands to the host compiler.
  # Nor an error on spills: another toolkit or GPU may have some, and the program still runs. The
  # architectures of the course are checked by kv_cubins.
  target_compile_options(${name} PRIVATE
    "SHELL:-Werror all-warnings" "SHELL:-Xcompiler -Wall,-Wextra,-Werror")
endfunction()

# kv_cubins(TARGET [ALLOW_LOCAL] sources...): the machine code of each kernel file for each
# architecture, and what ptxas says of it, as TARGET/sm_XX/NAME.cubin and .txt of the build folder.
# No host code is compiled; neither a GPU nor CUDA as a language of the project is needed.
# ALLOW_LOCAL: warnings, spills and local memory are no errors.
function(kv_cubins target)
  cmake_parse_arguments(arg "ALLOW_LOCAL" "" "" ${ARGN})
  set(outputs)
  foreach(architecture IN LISTS KV_CUBIN_ARCHITECTURES)
    foreach(source IN LISTS arg_UNPARSED_ARGUMENTS)
      get_filename_component(path ${source} ABSOLUTE)
      get_filename_component(stem ${source} NAME_WE)
      set(folder ${PROJECT_BINARY_DIR}/${target}/sm_${architecture})
      set(output ${folder}/${stem}.cubin)
      add_custom_command(
        OUTPUT ${output} BYPRODUCTS ${folder}/${stem}.txt
        COMMAND ${CMAKE_COMMAND}
          -DNVCC=${KV_NVCC} -DARCHITECTURE=sm_${architecture} -DSOURCE=${path} -DOUTPUT=${output}
          -DALLOW_LOCAL=${arg_ALLOW_LOCAL} -DHOST_COMPILER=${KV_NVCC_HOST_COMPILER}
          "-DINCLUDES=-I${PROJECT_SOURCE_DIR}/src -I${PROJECT_SOURCE_DIR}/kernels"
          -P ${PROJECT_SOURCE_DIR}/kernels/compile_cubin.cmake
        DEPENDS ${path} ${PROJECT_SOURCE_DIR}/kernels/compile_cubin.cmake
        DEPFILE ${output}.d
        COMMENT "Machine code of ${stem} for sm_${architecture}"
        VERBATIM)
      list(APPEND outputs ${output})
    endforeach()
  endforeach()
  add_custom_target(${target} DEPENDS ${outputs})
endfunction()
