// The few names of the CUDA runtime that host code of a kernel file needs.
#pragma once

/// Error codes, with the values of the CUDA runtime.
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorNoDevice = 100,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchTimeout = 702,
  cudaErrorAssert = 710,
  cudaErrorMisalignedAddress = 716,
  cudaErrorLaunchFailure = 719,
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
