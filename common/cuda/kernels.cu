// Launches only: what runs is in headers that the emulator runs too.
#include "common/cuda/cuda_thread.h"
#include "common/cuda/elementwise_kernels.h"
#include "common/cuda/kernel_call.h"
#include "common/cuda/kernels.h"
#include "common/cuda/reduction_kernels.h"

namespace psring {
namespace {

template <typename Kernel>
cudaError_t Launch(cudaStream_t stream, const KernelCall<Kernel>& call) {
  if (call.blocks == 0) return cudaSuccess;
  RunKernel<<<static_cast<unsigned>(call.blocks), Kernel::kThreads, 0, stream>>>(
      call.kernel);
  return cudaGetLastError();
}

}  // namespace

cudaError_t LaunchAddBias(cudaStream_t stream, int64_t rows, int64_t columns,
                          const float* bias, bool relu, float* values) {
  return Launch(stream, CallAddBias(rows, columns, bias, relu, values));
}

cudaError_t LaunchMaskGradient(cudaStream_t stream, int64_t count, const float* output,
                               float* gradient) {
  return Launch(stream, CallMaskGradient(count, output, gradient));
}

cudaError_t LaunchSumColumns(cudaStream_t stream, int64_t rows, int64_t columns,
                             const float* values, float* sums) {
  return Launch(stream, CallSumColumns(rows, columns, values, sums));
}

cudaError_t LaunchSoftmaxCrossEntropy(cudaStream_t stream, int64_t rows, int64_t classes,
                                      const int32_t* labels, float* logits, float* losses,
                                      uint64_t* correct) {
  return Launch(stream,
                CallSoftmaxCrossEntropy(rows, classes, labels, logits, losses, correct));
}

cudaError_t LaunchMean(cudaStream_t stream, int64_t count, const float* values,
                       double* mean) {
  return Launch(stream, CallMean(count, values, mean));
}

cudaError_t LaunchUpdateParameters(cudaStream_t stream, UpdateRule rule,
                                   const UpdateFactors& factors, float scale,
                                   const UpdatedSlice& slice) {
  return WithUpdateParameters(rule, factors, scale, slice, [stream](const auto& call) {
    return Launch(stream, call);
  });
}

cudaError_t LaunchDigest(cudaStream_t stream, int64_t count, const float* values,
                         int64_t first_index, uint64_t* sum) {
  return Launch(stream, CallDigest(count, values, first_index, sum));
}

cudaError_t LaunchFindBeyond(cudaStream_t stream, int64_t count, const float* values,
                             float largest, uint64_t* found) {
  return Launch(stream, CallFindBeyond(count, values, largest, found));
}

cudaError_t LaunchZeroWhereFound(cudaStream_t stream, int64_t count,
                                 const uint64_t* found, float* values, uint64_t* zeroed) {
  return Launch(stream, CallZeroWhereFound(count, found, values, zeroed));
}

cudaError_t LaunchRound(cudaStream_t stream, SixteenBits type, int64_t count,
                        const float* values, float factor, uint16_t* rounded) {
  return WithRoundValues(type, count, values, factor, rounded,
                         [stream](const auto& call) { return Launch(stream, call); });
}

cudaError_t LaunchWiden(cudaStream_t stream, SixteenBits type, int64_t count,
                        const uint16_t* values, float* widened) {
  return WithWidenValues(type, count, values, widened,
                         [stream](const auto& call) { return Launch(stream, call); });
}

cudaError_t LaunchAddTo(cudaStream_t stream, int64_t count, const float* addend,
                        float* sum) {
  return Launch(stream, CallAddTo(count, addend, sum));
}

cudaError_t LaunchScaleBy(cudaStream_t stream, int64_t count, float factor,
                          float* values) {
  return Launch(stream, CallScaleBy(count, factor, values));
}

}  // namespace psring
