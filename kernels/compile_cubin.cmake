# Compiles one kernel file to machine code and keeps what ptxas says of it beside the result.
# Spills and local memory are errors, as all warnings are, but with ALLOW_LOCAL.
cmake_minimum_required(VERSION 3.25)
get_filename_component(folder ${OUTPUT} DIRECTORY)
get_filename_component(stem ${OUTPUT} NAME_WE)
file(MAKE_DIRECTORY ${folder})
separate_arguments(INCLUDES)
set(host_compiler)
if(HOST_COMPILER)
  set(host_compiler -ccbin ${HOST_COMPILER})
endif()
set(strict -Werror all-warnings -Xptxas -warn-spills,-warn-lmem-usage,-Werror)
if(ALLOW_LOCAL)
  set(strict)
endif()
execute_process(
  COMMAND ${NVCC} -cubin -arch=${ARCHITECTURE} -std=c++20 -O3
    ${host_compiler} ${INCLUDES} ${strict} -Xptxas -v
    -MD -MF ${OUTPUT}.d -MT ${OUTPUT} -o ${OUTPUT} ${SOURCE}
  OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE status)
file(WRITE ${folder}/${stem}.txt "${said}")
if(NOT status EQUAL 0)
  file(REMOVE ${OUTPUT})
  message(NOTICE "${said}")  # as it is: an error's text would be broken into paragraphs
  message(FATAL_ERROR "nvcc -arch=${ARCHITECTURE} ${SOURCE} failed; what it said is above")
endif()
