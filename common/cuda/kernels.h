// Our kernels, for whoever has a stream: all that training does on a GPU apart from
// products of matrices (cuBLAS), copies and zeroing (the runtime).
#ifndef PSRING_COMMON_CUDA_KERNELS_H_
#define PSRING_COMMON_CUDA_KERNELS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "common/cuda/elementwise_kernels.h"
#include "common/sixteen_bits.h"
#include "common/update_rule.h"

namespace psring {

// Each puts its work on `stream` and returns at once: it neither waits nor allocates, and
// its arguments' memory is used until the stream has done it. All pointers are to the
// current device's memory, or to memory that it can use, aligned to their elements;
// aligned alike to 16 bytes they are quicker. Arrays of one call do not overlap. Counts
// are of elements, not below 0; where there is nothing to do nothing is started. What
// comes back is the launch's error; errors of the work show in later calls on the stream,
// as always with CUDA.
//
// Matrices are dense and row-major: [rows, columns]. The same call gives the same bits
// every time, on every GPU and for every alignment but where an exponential or a
// logarithm is in it, which are the toolkit's: those may differ between GPUs and from
// processors.

// values [rows, columns] = values + bias [columns] in every row, then Relu where `relu`:
// what follows a product in a layer's forward pass. NaN stays NaN.
cudaError_t LaunchAddBias(cudaStream_t stream, int64_t rows, int64_t columns,
                          const float* bias, bool relu, float* values);

// gradient = gradient where output > 0, else 0 (Device::ReluBackward).
cudaError_t LaunchMaskGradient(cudaStream_t stream, int64_t count, const float* output,
                               float* gradient);

// sums [columns] = the sums over rows of values [rows, columns]: a bias's gradient. Their
// order of additions is that of SumColumnsKernel, whatever GPU it is.
cudaError_t LaunchSumColumns(cudaStream_t stream, int64_t rows, int64_t columns,
                             const float* values, float* sums);

// Device::SoftmaxCrossEntropy without the wait: logits [rows, classes] become the
// gradient of the mean loss, losses [rows] each row's loss, whose mean LaunchMean makes,
// and to *correct is added how many rows have their largest logit, of equal ones the
// first, at their label. labels [rows], each in [0, classes).
cudaError_t LaunchSoftmaxCrossEntropy(cudaStream_t stream, int64_t rows, int64_t classes,
                                      const int32_t* labels, float* logits, float* losses,
                                      uint64_t* correct);

// *mean = the mean of values [count], count > 0, in double precision.
cudaError_t LaunchMean(cudaStream_t stream, int64_t count, const float* values,
                       double* mean);

// One update of a slice by `rule` with gradient * scale; the gradient stays as it is. The
// bits are those of ScaleInPlace and then SliceOptimizer::Apply on a processor.
cudaError_t LaunchUpdateParameters(cudaStream_t stream, UpdateRule rule,
                                   const UpdateFactors& factors, float scale,
                                   const UpdatedSlice& slice);

// Adds to *sum what Digest(values, first_index) is; *sum is 0 before the first part.
cudaError_t LaunchDigest(cudaStream_t stream, int64_t count, const float* values,
                         int64_t first_index, uint64_t* sum);

// FirstBeyond: *found becomes the least of itself and the index of the first value whose
// magnitude is above `largest`, or that is not a number. It is kNothingFound (all bits
// set) before the first part.
cudaError_t LaunchFindBeyond(cudaStream_t stream, int64_t count, const float* values,
                             float largest, uint64_t* found);

// Where *found is not kNothingFound, values = 0, and *zeroed is one more: so a bucket
// with what is not a number goes as zero without anyone waiting for the stream.
cudaError_t LaunchZeroWhereFound(cudaStream_t stream, int64_t count,
                                 const uint64_t* found, float* values, uint64_t* zeroed);

// As in common/sixteen_bits.h, but without the drift: rounded = values * factor, and
// widened = values.
cudaError_t LaunchRound(cudaStream_t stream, SixteenBits type, int64_t count,
                        const float* values, float factor, uint16_t* rounded);
cudaError_t LaunchWiden(cudaStream_t stream, SixteenBits type, int64_t count,
                        const uint16_t* values, float* widened);

// sum = sum + addend, and values *= factor (common/arithmetic.h).
cudaError_t LaunchAddTo(cudaStream_t stream, int64_t count, const float* addend,
                        float* sum);
cudaError_t LaunchScaleBy(cudaStream_t stream, int64_t count, float factor,
                          float* values);

}  // namespace psring

#endif  // PSRING_COMMON_CUDA_KERNELS_H_
