// The few names of the CUDA runtime that host code of a kernel file needs.
#pragma once

/// Error codes, with the values of the CUDA runtime.
enum cudaError_t {
  cudaSuccess = 0,            ///< no launch has failed
  cudaErrorInvalidValue = 1,  ///< a launch or allow_shared() that asks for too much shared memory
  cudaErrorMemoryAllocation = 2,      ///< device memory is used up; the emulator never gives it
  cudaErrorInvalidConfiguration = 9,  ///< a grid or a CTA that is empty or too large
  cudaErrorNoDevice = 100,            ///< no GPU; the emulator never gives it
  cudaErrorIllegalAddress = 700,      ///< Fault::out_of_bounds
  cudaErrorLaunchTimeout = 702,  ///< a kernel that would not end: deadlock, barrier, no_progress
  cudaErrorAssert = 710,         ///< a failed assert in a kernel; the emulator never gives it
  cudaErrorMisalignedAddress = 716,  ///< Fault::misaligned
  cudaErrorLaunchFailure = 719,      ///< any other Fault of a kernel
};

/// Launches of the emulator are finished when they return: a stream is only a name.
using cudaStream_t = struct KvEmulatorStream*;

/// The error of the launches since the last call, which is then forgotten.
cudaError_t cudaGetLastError();

/// The same without forgetting it.
cudaError_t cudaPeekAtLastError();

/// \return the text of the last failed launch where there is one, else the code's name
const char* cudaGetErrorString(cudaError_t error);

/// Nothing to wait for; returns (and keeps) the pending error.
cudaError_t cudaDeviceSynchronize();
